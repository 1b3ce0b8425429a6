// What of reports ends with time: the messages (retention.report_messages), then their rows and figures
// (retention.reports). Keys grow with time, so what is oldest stands first, and no index of times is needed.
import { DAY } from '../base/clock.ts'
import type { Store, Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'

/** Rows that are deleted in one transaction. */
const AT_ONCE = 1000

/**
 * The messages of reports that came before a time (ms) and are counted, at most `most`: their reports refer to them no
 * more.
 */
export function releaseMessages(tx: Tx, before: number, most: number): number[] {
  const keys = tx
    .all(
      raw<{ key: number }>(
        `select distinct message_key as key from
           (select message_key, created_at from aggregate_reports where message_key is not null order by message_key limit ?)
         where created_at < ? and message_key not in
           (select rows ->> 'message' from report_pieces where rows ->> 'message' is not null)`,
        [most, before],
      ),
    )
    .map(({ key }) => key)
  tx.run(
    raw('update aggregate_reports set message_key = null where message_key in (select value from json_each(?))', [
      JSON.stringify(keys),
    ]),
  )
  return keys
}

/** Deletes reports and figures from before a time (ms). A report whose message is kept longer stays as long. */
export async function forgetReports(store: Store, before: number): Promise<void> {
  const forget = (tx: Tx): number =>
    tx.all(
      raw(
        `delete from aggregate_reports where key in (select key from
           (select key, created_at, message_key from aggregate_reports order by key limit ?)
         where created_at < ? and message_key is null) returning key`,
        [AT_ONCE, before],
      ),
    ).length
  while ((await store.writeSoon(forget)) > 0);
  const day = Math.floor(before / DAY)
  const old = (table: 'dmarc_figures' | 'tls_figures') =>
    store.all(
      raw<{ key: number }>(
        `select d.key from domains d where exists (select 1 from ${table} f where f.domain_key = d.key and f.day < ?)`,
        [day],
      ),
    )
  for (const { key } of old('dmarc_figures'))
    await store.writeSoon((tx) => tx.run(raw('delete from dmarc_figures where domain_key = ? and day < ?', [key, day])))
  for (const { key } of old('tls_figures'))
    await store.writeSoon((tx) => tx.run(raw('delete from tls_figures where domain_key = ? and day < ?', [key, day])))
}
