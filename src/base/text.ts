// Pieces of a text, and numbers in words.
import { DAY, HOUR, MINUTE, SECOND } from './clock.ts'

/** A text up to the first `end`, or the whole text without it. */
export const upTo = (text: string, end: string | RegExp): string => text.split(end, 1)[0] ?? text

/** A text after the last `mark` (one character), or the whole text without it. */
export const afterLast = (text: string, mark: string): string => text.slice(text.lastIndexOf(mark) + 1)

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

const nounFor = (value: number, noun: string, plural = `${noun}s`): string => (value === 1 ? noun : plural)

/** A number with its noun: "1 day", "2000 days". `plural` for a noun that does not just add "s". */
export const counted = (value: number, noun: string, plural?: string): string =>
  `${value} ${nounFor(value, noun, plural)}`

/** As `counted`, with separators of thousands: "2,000 days". */
export const countedGrouped = (value: number, noun: string, plural?: string): string =>
  `${value.toLocaleString('en')} ${nounFor(value, noun, plural)}`

/** A share as a percentage with at most two decimals, or with exactly so many: "12.5%". */
export const percent = (share: number, decimals?: number): string =>
  decimals === undefined ? `${Number((share * 100).toFixed(2))}%` : `${(share * 100).toFixed(decimals)}%`

/** A duration in ms: "40 s", "12 min", "1.5 h", "3 days". */
export function span(ms: number): string {
  if (ms < 100 * SECOND) return `${Math.round(ms / SECOND)} s`
  if (ms < 100 * MINUTE) return `${Math.round(ms / MINUTE)} min`
  return ms < 2 * DAY ? `${Number((ms / HOUR).toFixed(1))} h` : counted(Math.round(ms / DAY), 'day')
}

/** Keys of rows with their noun: "row 1", "rows 1, 2". */
export const rowsText = (keys: readonly (number | string)[]): string =>
  `${keys.length === 1 ? 'row' : 'rows'} ${keys.join(', ')}`
