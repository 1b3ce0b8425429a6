// Values of reports in their canonical forms. They are untrusted: each is made one line of valid Unicode.
import { forLine } from '../../base/clean-text.ts'
import { canonical, isAddress } from '../../base/network.ts'
import { LIMITS, UnreadableReport } from './report.ts'

/** The largest count: 2^31 - 1. */
export const MOST_COUNT = 0x7fffffff

/** A text on one line, trimmed. */
export const lineOf = (text: string): string => forLine(text).toWellFormed().trim()

/** A domain in lower case, without a final dot. */
export const domainOf = (text: string): string => lineOf(text).toLowerCase().replace(/\.$/, '')

/** A whole number from 0 to 2^31 - 1, digits only. */
export function countOf(text: string): number | undefined {
  const count = /^\d{1,10}$/.test(text) ? Number(text) : NaN
  return count <= MOST_COUNT ? count : undefined
}

/** Whole seconds since 1970, digits only. */
export const secondsOf = (text: string): number | undefined => (/^\d{1,12}$/.test(text) ? Number(text) : undefined)

/** An IP address in its canonical form (RFC 5952). An IPv4-mapped address (RFC 4291 §2.5.5.2) becomes IPv4. */
export const addressOf = (text: string): string | undefined =>
  isAddress(text) && !text.includes('%') ? canonical(text).replace(/^::ffff:(?=\d+\.)/, '') : undefined

/** Throws if a period is missing, reversed, too long, in the future, or ended before `oldest`. */
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
