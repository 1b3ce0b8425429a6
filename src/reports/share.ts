// Which share of what a report says is evidence for a policy (D185): nothing of a report that comes late, and of one
// provider no more messages a day than a bounded number, so that nobody who owns a domain outweighs all others.
import { DAY } from '../base/clock.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'

/** How long (ms) after the end of its time a report may come. */
export const LATE = 7 * DAY
/** The most messages of one provider about a day that are evidence, of those that come within a day. */
const MOST = 10_000

/** The share of each count of a report that is evidence. Call it before the report is recorded. */
export function evidenceShare(
  reader: Reader,
  {
    begin,
    domainKey,
    end,
    messages,
    reporter,
  }: Record<'domainKey' | 'begin' | 'end' | 'messages', number> & {
    reporter: string
  },
  now: number,
): number {
  if (messages === 0 || end < now - LATE) return 0
  const day = Math.floor(begin / DAY) * DAY
  const { before } = reader.one(
    raw<{ before: number }>(
      `select coalesce(sum(passed + failed), 0) as before from aggregate_reports
       where domain_key = ? and created_at > ? and kind = 'dmarc' and outcome = 'read' and authenticated = 1
         and begin_at >= ? and begin_at < ? and reporter = ?`,
      [domainKey, now - DAY, day, day + DAY, reporter],
    ),
  )
  return Math.min(messages, Math.max(0, MOST - before)) / messages
}
