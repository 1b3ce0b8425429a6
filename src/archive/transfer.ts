// How far a transfer is, with its rate and the time that is left (B14).
import { SECOND, type Clock } from '../base/clock.ts'
import { spanOf } from '../store/log.ts'
import type { Terminal } from '../commands/terminal.ts'

/** A line on a terminal is drawn so often; elsewhere a line is printed so often. */
const DRAWN = SECOND / 2
const PRINTED = 10 * SECOND

const mb = (octets: number): string =>
  octets < 1e10 ? `${Math.round(octets / 1e6)} MB` : `${(octets / 1e9).toFixed(1)} GB`

const rateOf = (octets: number): string =>
  octets < 1e6 ? `${Math.round(octets / 1e3)} kB/s` : `${Math.round(octets / 1e6)} MB/s`

/** Such as "412 MB of 1200 MB, 96 MB/s, 8 s left". */
export function transferText(done: number, whole: number, ms: number, what = ''): string {
  const rate = ms > 0 ? done / (ms / SECOND) : 0
  // A stream may be longer than was said.
  const rest = Math.max(0, whole - done)
  const left = rate > 0 ? `, ${rateOf(rate)}, ${spanOf((rest / rate) * SECOND)} left` : ''
  return `${mb(done)} of ${mb(whole)}${what === '' ? '' : ` ${what}`}${left}`
}

export interface Transfer {
  add(octets: number): void
  end(): void
}

/** Shows a transfer of so many octets on stderr; nothing with --json. */
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
    add(octets) {
      done += octets
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
