// Counts a token's recipients by day (UTC), for the limit that the operator may set: it limits the harm of a stolen
// token.
import { DAY } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import type { Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'

/** Days that are kept for display. */
const KEPT = 31

/** Counts recipients of a token that may have a limit. Throws 422 volume_exceeded; then nothing is counted. */
export function useTokenDay(tx: Tx, tokenKey: number, recipients: number, now: number): void {
  const day = Math.floor(now / DAY)
  const token = tx.first(
    raw<{ daily: number | null; name: string }>('select daily, name from tokens where key = ?', [tokenKey]),
  )
  if (!token || token.daily === null) return
  const used =
    tx.first(
      raw<{ recipients: number }>('select recipients from token_days where token_key = ? and day = ?', [tokenKey, day]),
    )?.recipients ?? 0
  if (used + recipients > token.daily)
    throw refuse(
      'volume_exceeded',
      `The token ${token.name} may write to ${token.daily} recipients a day; ${used} are used, and this would need ${recipients} more.`,
      { pointer: '/data' },
    )
  tx.run(
    raw(
      `insert into token_days (token_key, day, recipients) values (?, ?, ?)
       on conflict do update set recipients = recipients + excluded.recipients`,
      [tokenKey, day, recipients],
    ),
  )
  tx.run(raw('delete from token_days where token_key = ? and day < ?', [tokenKey, day - KEPT]))
}
