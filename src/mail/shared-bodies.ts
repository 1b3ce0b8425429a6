// The body that the emails of a batch share. Each email has a body row of its own, with its values. The shared body is
// kept as long as one of these rows.
import { filesOf } from '../base/spooled.ts'
import type { Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'

/** Deletes the shared bodies of batches that no email needs any longer. Returns the files to remove. */
export function dropUnusedBodies(tx: Tx, batches: Iterable<number | null | undefined>): string[] {
  const keys = [...new Set(batches)].filter((key) => typeof key === 'number')
  if (keys.length === 0) return []
  const unused = tx.all(
    raw<{ key: number; spool: string | null }>(
      `select key, spool from outbound_batches t where key in (select value from json_each(?))
         and (content is not null or spool is not null)
         and not exists (select 1 from outbound_emails e join outbound_bodies b on b.email_key = e.key where e.batch_key = t.key)`,
      [JSON.stringify(keys)],
    ),
  )
  tx.run(
    raw('update outbound_batches set content = null, spool = null where key in (select value from json_each(?))', [
      JSON.stringify(unused.map(({ key }) => key)),
    ]),
  )
  return unused.flatMap(({ spool }) => filesOf(spool))
}
