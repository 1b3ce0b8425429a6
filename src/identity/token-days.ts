// Counts a token's recipients by day (UTC), for the limit that the operator may set: it limits the harm of a stolen
// token.
import { DAY } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import type { Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'

/** Days that are kept for display. */
const KEPT = 31

/** A token and the tokens through which it was made, the maker of all last (D117). */
const LINE = `with recursive line(key, step) as (
    select ?, 0 union select t.maker_key, step + 1 from tokens t join line on t.key = line.key where t.maker_key is not null
  ) select t.key, t.daily, t.name, (select recipients from token_days d where d.token_key = t.key and d.day = ?) as used
  from line join tokens t on t.key = line.key where t.daily is not null order by step`

/**
 * Counts recipients of a token that may have a limit, for it and for the tokens through which it was made: a token has
 * no limit of its own beside that of its maker. Throws 422 volume_exceeded; then nothing is counted.
 */
export function useTokenDay(tx: Tx, tokenKey: number, recipients: number, now: number): void {
  const day = Math.floor(now / DAY)
  type Limited = { key: number; daily: number; name: string; used: number | null }
  const limited = tx.all(raw<Limited>(LINE, [tokenKey, day]))
  for (const { daily, name, used } of limited)
    if ((used ?? 0) + recipients > daily)
      throw refuse(
        'volume_exceeded',
        `The token ${name} may write to ${daily} recipients a day; ${used ?? 0} are used, and this would need ${recipients} more.`,
        { pointer: '/data' },
      )
  for (const { key } of limited) {
    tx.run(
      raw(
        `insert into token_days (token_key, day, recipients) values (?, ?, ?)
         on conflict do update set recipients = recipients + excluded.recipients`,
        [key, day, recipients],
      ),
    )
    tx.run(raw('delete from token_days where token_key = ? and day < ?', [key, day - KEPT]))
  }
}
