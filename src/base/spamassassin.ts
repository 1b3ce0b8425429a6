// Rates an email with SpamAssassin, if it is installed. It works offline (-L): it rates text and form, not the
// reputation of the sender.
import { execFile } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { tmpdir } from 'node:os'
import { MINUTE } from './clock.ts'
import { semaphore } from './semaphore.ts'
import { must } from './errors.ts'

export const SPAMASSASSIN = '/usr/bin/spamassassin'
const MAX_OUTPUT = 64 * 1024 * 1024
/** SpamAssassin needs one or two seconds of CPU time per email. */
const oneAtATime = semaphore(1)

export interface SpamVerdict {
  score: number
  /** From this score on, receivers that use its rules call an email spam. */
  required: number
  /** The rules that fired. */
  rules: string[]
}

/** Whether the program at this path exists and may be run. */
export function hasSpamAssassin(program: string): boolean {
  try {
    accessSync(program, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** The verdict on a message, or undefined if SpamAssassin is not installed, or failed. */
export function judgeSpam(message: string | Buffer, program: string): Promise<SpamVerdict | undefined> {
  if (!hasSpamAssassin(program)) return Promise.resolve(undefined)
  const args = ['-L', '-x', '-p', '/dev/null', '--cf=use_bayes 0', '--cf=fold_headers 0', '--cf=report_safe 0']
  const env = { HOME: tmpdir(), PATH: '/usr/sbin:/usr/bin:/sbin:/bin' }
  const options = { timeout: MINUTE, killSignal: 'SIGKILL', maxBuffer: MAX_OUTPUT, env } as const
  return oneAtATime(
    () =>
      new Promise((resolve) => {
        const child = execFile(program, args, options, (error, stdout) =>
          resolve(error ? undefined : readStatus(stdout)),
        )
        must(child.stdin, 'The input of SpamAssassin')
          .on('error', () => {})
          .end(message)
      }),
  )
}

/** Reads X-Spam-Status of the header that SpamAssassin wrote. */
export function readStatus(output: string): SpamVerdict | undefined {
  const [, score, required, rules] =
    /^X-Spam-Status: \w+, score=(-?[\d.]{1,10}) required=([\d.]{1,10}) tests=([\w,]{0,20000})/m.exec(
      output.slice(0, 64 * 1024),
    ) ?? []
  if (score === undefined || rules === undefined) return undefined
  return { score: Number(score), required: Number(required), rules: rules === 'none' ? [] : rules.split(',') }
}
