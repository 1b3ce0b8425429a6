// Rolls back an upgrade: restores the copy of the database that the upgrade made (D181). Data stored since then would
// be lost, so it is counted. The erasure log stays as it is: the next start repeats erasures that the copy does not
// contain.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../base/errors.ts'
import { schemaIn, withCopy } from '../store/copy.ts'
import { DATABASE } from '../store/open.ts'
import { raw } from '../store/query.ts'
import { wayBack, waysBack } from '../store/way-back.ts'
import { migrations } from '../store/schema/migrations.ts'
import type { TableName } from '../store/schema/tables.ts'
import { readLedger } from '../privacy/ledger.ts'

/** Tables whose rows since the upgrade are counted. */
const COUNTED = {
  mails: ['outbound_emails'],
  messages: ['inbound_messages'],
  events: ['events'],
  settings: [
    'users',
    'tokens',
    'domains',
    'inboxes',
    'webhooks',
    'audiences',
    'contacts',
    'campaigns',
    'images',
    'suppressions',
  ],
} as const satisfies Record<string, readonly TableName[]>

export interface Loss {
  /** Accepted emails, received messages, events, and other rows (accounts, domains, contacts, …). */
  mails: number
  messages: number
  events: number
  settings: number
  /** Erasure requests. The erasure log repeats them. */
  erasures: number
  /** Recipients of emails that would be sent a second time. */
  again: number
}

export interface Rollback {
  /** The schemas of the database and of the copy, and the version that uses the schema of the copy. */
  from: number
  to: number
  version: string | undefined
  copy: string
}

/** Finds the copy from before the last upgrade. Throws an OperatorError if it does not exist. */
export function findRollback(dataDir: string): Rollback {
  const file = join(dataDir, DATABASE)
  if (!existsSync(file)) throw new OperatorError(`${dataDir} contains no database (${DATABASE}); check "data_dir".`)
  const { schema: from, version: writer = 'an older version' } = schemaIn(file)
  if (from < migrations.length)
    throw new OperatorError(
      `${file} still has schema ${from} of ${writer}, so there is no upgrade to roll back; start ${writer}.`,
    )
  const copies = waysBack(dataDir).filter((schema) => schema < from)
  if (copies.length === 0)
    throw new OperatorError(
      `There is no copy of ${file} from before an upgrade (copies are kept for a week, or until the next erasure); restore a backup made before it with "postrider restore --replace FILE".`,
    )
  const to = Math.max(...copies)
  const copy = wayBack(file, to)
  return { from, to, copy, version: schemaIn(copy).version }
}

/** Counts the data that would be lost. */
export async function lossOf(dataDir: string, { copy }: Rollback): Promise<Loss> {
  const loss: Loss = { mails: 0, messages: 0, events: 0, settings: 0, erasures: 0, again: 0 }
  const erased = readLedger(dataDir).map(({ id }) => id)
  await withCopy(copy, (before) =>
    withCopy(join(dataDir, DATABASE), async (now) => {
      const has = (reader: typeof now, table: string): boolean =>
        reader.all(raw(`select 1 from sqlite_schema where type = 'table' and name = '${table}'`)).length > 0
      for (const [what, tables] of Object.entries(COUNTED) as [keyof typeof COUNTED, readonly string[]][])
        for (const table of tables) {
          if (!has(now, table)) continue
          const { last } = has(before, table)
            ? before.one(raw<{ last: number }>(`select coalesce(max(key), 0) as last from ${table}`))
            : { last: 0 }
          loss[what] += now.one(raw<{ n: number }>(`select count(*) as n from ${table} where key > ?`, [last])).n
        }
      const known = new Set(before.all(raw<{ id: string }>('select id from privacy_requests')).map(({ id }) => id))
      loss.erasures = erased.filter((id) => !known.has(id)).length
      const open = before.all(
        raw<{ key: number }>(`select key from deliveries where status in ('queued', 'held', 'active')`),
      )
      const ended = now.all(
        raw<{ key: number }>(
          `select key from deliveries where status not in ('queued', 'held', 'active')
           and key in (select value from json_each(?))`,
          [JSON.stringify(open.map(({ key }) => key))],
        ),
      )
      loss.again = ended.length
    }),
  )
  return loss
}
