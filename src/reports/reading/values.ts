// Values of reports in their canonical forms. They are what a stranger wrote: one line each, and well-formed.
import { isIP } from 'node:net'
import { forLine } from '../../base/clean-text.ts'
import { LIMITS, UnreadableReport } from './report.ts'

/** The largest count: 2^31 - 1. */
export const MOST_COUNT = 0x7fffffff

/** A text on one line, without blanks around it. */
export const lineOf = (text: string): string => forLine(text).toWellFormed().trim()

/** A domain in lower case, without a final dot. */
export const domainOf = (text: string): string => lineOf(text).toLowerCase().replace(/\.$/, '')

/** A whole number of 0 to 2^31 - 1 in digits alone. */
export function countOf(text: string): number | undefined {
  const count = /^\d{1,10}$/.test(text) ? Number(text) : NaN
  return count <= MOST_COUNT ? count : undefined
}

/** Whole seconds since 1970, in digits alone. */
export const secondsOf = (text: string): number | undefined => (/^\d{1,12}$/.test(text) ? Number(text) : undefined)

/** An address in its canonical form (RFC 5952), an IPv4 address in IPv6 (RFC 4291 §2.5.5.2) as itself. */
export function addressOf(text: string): string | undefined {
  if (isIP(text) === 4) return text
  if (isIP(text) !== 6 || text.includes('%')) return undefined
  const address = new URL(`http://[${text}]`).hostname.slice(1, -1)
  const [, high, low] = /^::ffff:([\da-f]{1,4}):([\da-f]{1,4})$/.exec(address) ?? []
  if (high === undefined || low === undefined) return address
  return [high, low].flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255]).join('.')
}

/**
 * Demands that a period is one: its end not far ahead, not too long, and not too long ago. The last only when `oldest`
 * is given.
 */
export function demandPeriod(
  { begin, end }: { begin: number | undefined; end: number | undefined },
  { now, oldest }: { now: number; oldest: number | null },
): { begin: number; end: number } {
  if (begin === undefined || end === undefined || begin > end || end - begin > LIMITS.period)
    throw new UnreadableReport('date_range')
  if (end > now / 1000 + LIMITS.ahead) throw new UnreadableReport('date_range')
  if (oldest !== null && end < oldest / 1000) throw new UnreadableReport('too_old')
  return { begin, end }
}
