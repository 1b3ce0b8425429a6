// Runs another version on a copy of the installation, and bounds what it may do: it is a file that somebody fetched.
import { readdirSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { findConfig } from '../base/config-file.ts'
import type { OwnProgram } from '../base/installed.ts'
import { MINUTE, SECOND, systemClock } from '../base/clock.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { spawnAsOwner } from '../base/ownership.ts'
import type { Invocation } from '../commands/open.ts'

export interface TrialRun {
  code: number | null
  output: string
  /** The last line that it wrote on stderr, or why it was ended. */
  last: string
  /** How much its folder grew at most, in octets. */
  grown: number
}

export interface RunningTrial {
  ended: Promise<TrialRun>
  /** Ends it and all that it started. */
  end(): void
}

interface TrialWishes {
  now: Pick<Invocation, 'configFile' | 'environment'>
  data: string
  /** What it says of its data is of this folder: the copy goes. */
  named: string
  tell: (line: string) => void
  /** It is ended when it says and writes nothing for so long (ms). One of ours says each second how far it is. */
  still?: number
}

/** An answer of the other version is longer only by an error. */
const MOST_ANSWER = 4 * 1024 ** 2
const MOST_LINE = 2000
/** Of what comes at once; the rest is passed over. */
const MOST_LINES = 100

export function startTrial(own: OwnProgram, { data, named, now, still = 2 * MINUTE, tell }: TrialWishes): RunningTrial {
  const child = spawnAsOwner(own.program, wordsOf(own, now), {
    // Both at once are refused (C2).
    env: { ...now.environment, POSTRIDER_DATA_DIR: data, POSTRIDER_DATA_DIR_FILE: undefined },
    // It ends when its stdin does: when this process is killed.
    stdio: ['pipe', 'pipe', 'pipe'],
    // A group of its own, so that what it starts ends with it.
    detached: true,
  })
  const tried: TrialRun = { code: null, output: '', last: '', grown: 0 }
  let over = false
  const end = (): void => void (over || endGroup(child.pid))
  const before = octetsIn(data)
  let moved = systemClock.elapsed()
  let cancel = (): void => {}
  const measure = (): void => {
    const grown = octetsIn(data) - before
    if (grown > tried.grown) moved = systemClock.elapsed()
    tried.grown = Math.max(tried.grown, grown)
    if (systemClock.elapsed() - moved > still) {
      tried.last = `It stood still for ${Math.round(still / SECOND)} s, and was ended.`
      end()
    } else cancel = systemClock.wake(systemClock.now() + SECOND / 10, measure)
  }
  measure()
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    moved = systemClock.elapsed()
    if (tried.output.length + chunk.length > MOST_ANSWER) end()
    else tried.output += chunk
  })
  child.stderr.setEncoding('utf8').on(
    'data',
    linesIn((line) => {
      tried.last = line.replace(/^postrider: /, '').replaceAll(data, named)
      tell(tried.last)
    }),
  )
  child.stderr.on('data', () => (moved = systemClock.elapsed()))
  const ended = new Promise<TrialRun>((done, fail) => {
    child.once('error', (thrown) => {
      over = true
      cancel()
      fail(notRun(own.program, thrown))
    })
    child.once('close', (code) => {
      over = true
      cancel()
      done({
        ...tried,
        output: tried.output.replaceAll(data, named),
        code,
        grown: Math.max(tried.grown, octetsIn(data) - before),
      })
    })
  })
  return { ended, end }
}

/** Hears the chunks of a stream, and calls `each` with its whole lines: their beginnings, and the last ones of many. */
function linesIn(each: (line: string) => void): (chunk: string) => void {
  let begun = ''
  return (chunk) => {
    const lines = (begun + chunk).split('\n')
    begun = (lines.pop() ?? '').slice(0, MOST_LINE)
    for (const line of lines.slice(-MOST_LINES)) each(line.slice(0, MOST_LINE))
  }
}

function wordsOf({ first }: OwnProgram, now: TrialWishes['now']): string[] {
  const config = findConfig(now)
  return [...first, ...(config === undefined ? [] : ['--config', resolve(config)]), '--json', 'upgrade', '--trial']
}

const notRun = (program: string, thrown: unknown): OperatorError =>
  new OperatorError(
    `${basename(program)} cannot be run here (${codeOf(thrown)}); is it for this machine, and may programs be run from ${dirname(program)}?`,
  )

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

const octetsIn = (folder: string): number =>
  readdirSync(folder).reduce((sum, name) => {
    const found = statSync(join(folder, name), { throwIfNoEntry: false })
    return sum + (found?.isFile() ? found.size : 0)
  }, 0)
