// Three other verifiers of a DKIM signature (RFC 6376), offline: OpenDKIM in C, dkimpy in Python and Mail::DKIM in
// Perl. They share no code with Postrider or mailauth, so if all agree the signature is right. Each verifies many
// messages in one process.

import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testPublicKeys, type DkimKey } from './opendkim.ts'
import { PROGRAMS } from './sandbox.ts'

export { missing } from './sandbox.ts'
export type { DkimKey } from './opendkim.ts'

export interface Judgement {
  /** Whether there is a signature and all verified signatures pass. */
  ok: boolean
  /** The output of the verifier for this message. */
  detail: string
}

type Judge = (mails: readonly Buffer[], keys: DkimKey[]) => Promise<Judgement[]>

interface Command {
  files: Record<string, string>
  run: (letters: string[]) => [program: string, args: string[]]
  /** The result in the output for a message, or undefined. */
  said: (output: string, letter: string) => string | undefined
}

const judge =
  (command: (keys: DkimKey[]) => Command): Judge =>
  async (mails, keys) => {
    const dir = await mkdtemp(join(tmpdir(), 'postrider-judge-'))
    try {
      const { files, run, said } = command(keys)
      for (const [name, content] of Object.entries(files)) await writeFile(join(dir, name), content)
      const names = mails.map((_, index) => `letter-${index}.eml`)
      for (const [index, mail] of mails.entries()) await writeFile(join(dir, names[index]!), mail)
      const [program, args] = run(names)
      const output = await new Promise<string>((resolve) => {
        const options = { cwd: dir, timeout: 240_000, killSignal: 'SIGKILL', maxBuffer: 256 * 1024 * 1024 } as const
        execFile(program, args, options, (error, stdout, stderr) =>
          // A program that could not be run at all says so only in the error.
          resolve(`${stdout}\n${stderr}\n${typeof error?.code === 'number' ? '' : (error?.message ?? '')}`),
        )
      })
      return names.map((name) => {
        const detail = said(output, name)
        return { ok: detail === 'pass', detail: detail ?? `nothing: ${output.trim().slice(0, 2000)}` }
      })
    } finally {
      await rm(dir, { recursive: true, force: true })
    }
  }

/** Lines of `letter-1.eml pass`. */
const lineOf = (output: string, letter: string): string | undefined =>
  output
    .split('\n')
    .find((line) => line.startsWith(`${letter} `))
    ?.slice(letter.length + 1)

const records = (keys: DkimKey[]): Record<string, string> => ({
  'keys.json': JSON.stringify(
    Object.fromEntries(keys.map((k) => [`${k.selector}._domainkey.${k.domain}`.toLowerCase(), k.record])),
  ),
})

/**
 * OpenDKIM in test mode. It says once for each letter what it found; of one without a signature, that it is not signed.
 */
export const opendkimAll = judge((keys) => ({
  files: { 'keys.txt': testPublicKeys(keys), 'od.conf': 'Mode v\nTestPublicKeys keys.txt\n' },
  run: (letters) => [PROGRAMS.opendkim, ['-vv', '-x', 'od.conf', '-t', letters.join(',')]],
  said(output, letter) {
    const found = output
      .split('\n')
      .filter((line) => line.startsWith(`opendkim: ${letter}: `) && !line.includes(' returned '))
    if (found.length === 0) return undefined
    return found.every((line) => / verification .* succeeded$/.test(line)) ? 'pass' : found.join(' ')
  },
}))

/** dkimpy, for every signature of a message. */
export const pythonDkimAll = judge((keys) => ({
  files: records(keys),
  // -I: neither the caller's PYTHONPATH nor the current directory decides which dkimpy judges.
  run: (letters) => [PROGRAMS.python, ['-I', join(import.meta.dirname, 'dkim-verify.py'), 'keys.json', ...letters]],
  said: lineOf,
}))

/** Mail::DKIM, for every signature of a message. */
export const perlDkimAll = judge((keys) => ({
  files: records(keys),
  run: (letters) => [PROGRAMS.perl, [join(import.meta.dirname, 'dkim-verify.pl'), 'keys.json', ...letters]],
  said: lineOf,
}))

const one =
  (all: Judge) =>
  async (mail: Buffer, keys: DkimKey[]): Promise<Judgement> =>
    (await all([mail], keys))[0]!

export const opendkimVerify = one(opendkimAll)
export const pythonDkimVerify = one(pythonDkimAll)
export const perlDkimVerify = one(perlDkimAll)
