// Deletes old reports: first their messages (retention.report_messages), then their rows and figures
// (retention.reports). Keys grow with time, so the oldest are first, and no index of times is needed.
import { dayOf } from '../base/clock.ts'
import { deleteUnfiled } from '../inbound/stored.ts'
import type { Spool } from '../store/spool.ts'
import type { Store, Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'

/** Rows that are deleted in one transaction. */
const AT_ONCE = 1000

/** Detaches the messages of reports received before a time (ms), at most `most`. Returns their keys. */
export function releaseMessages(tx: Tx, before: number, most: number): number[] {
  const keys = tx
    .all(
      raw<{ key: number }>(
        `select distinct message_key as key from
           (select message_key, created_at from aggregate_reports where message_key is not null order by message_key limit ?)
         where created_at < ?`,
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

/**
 * Deletes the messages of reports received before a time (ms), at most 500. Returns how many. A message that is also in
 * an inbox stays there.
 */
export async function removeOldReports(
  { spool, store }: { spool: Pick<Spool, 'remove'>; store: Store },
  before: number,
): Promise<number> {
  const { files, released } = await store.write((tx) => {
    const keys = releaseMessages(tx, before, 500)
    return { files: deleteUnfiled(tx, keys), released: keys.length }
  })
  await Promise.all(files.map((name) => spool.remove(name)))
  return released
}

/** Deletes reports and figures from before a time (ms), except reports whose message is still kept. */
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
  const day = dayOf(before)
  const deletes = [
    'delete from dmarc_figures where domain_key = ? and day < ?',
    'delete from tls_figures where domain_key = ? and day < ?',
  ]
  for (const { key } of store.all(raw<{ key: number }>('select key from domains')))
    await store.writeSoon((tx) => {
      for (const sql of deletes) tx.run(raw(sql, [key, day]))
    })
}
