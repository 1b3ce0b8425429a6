// Messages of a command on stderr, and the progress of a transfer.
import { forTerminal } from '../base/clean-text.ts'
import { span } from '../base/text.ts'
import { SECOND, type Clock } from '../base/clock.ts'
import type { Terminal } from '../views/command/terminal.ts'

export type Tell = (sentence: string) => void

export const tellOn =
  ({ err }: Terminal): Tell =>
  (sentence) =>
    err(`postrider: ${forTerminal(sentence)}\n`)

/** How often a line on a terminal is redrawn, and how often one is printed elsewhere. */
const DRAWN = SECOND / 2
const PRINTED = 10 * SECOND

const mb = (bytes: number): string =>
  bytes < 1e10 ? `${Math.round(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`

const rateOf = (bytes: number): string =>
  bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB/s` : `${Math.round(bytes / 1e6)} MB/s`

/** The progress, such as "412 MB of 1200 MB, 96 MB/s, 8 s left". */
export function transferText(done: number, whole: number, ms: number, what = ''): string {
  const rate = ms > 0 ? done / (ms / SECOND) : 0
  // A stream may be longer than stated.
  const rest = Math.max(0, whole - done)
  const left = rate > 0 ? `, ${rateOf(rate)}, ${span((rest / rate) * SECOND)} left` : ''
  return `${mb(done)} of ${mb(whole)}${what === '' ? '' : ` ${what}`}${left}`
}

export interface Transfer {
  add(bytes: number): void
  end(): void
}

/** Prints the progress on stderr, except with --json. */
export function transferOn(
  terminal: Pick<Terminal, 'draw' | 'err' | 'interactive' | 'json'>,
  clock: Clock,
  whole: number,
  what = '',
): Transfer {
  const began = clock.elapsed()
  let done = 0
  let shown = began
  let drawn = false
  return {
    add(bytes) {
      done += bytes
      const now = clock.elapsed()
      if (terminal.json || now - shown < (terminal.interactive ? DRAWN : PRINTED)) return
      shown = now
      const text = transferText(done, whole, now - began, what)
      if (terminal.interactive) terminal.draw(`\r${text}          `)
      else terminal.err(`postrider: ${text}\n`)
      drawn = terminal.interactive
    },
    end: () => void (drawn && terminal.draw('\n')),
  }
}
