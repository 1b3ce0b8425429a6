// The way back from an upgrade: the copy of the database from before it is put in its place again (D181). What was
// promised since would be lost, so it is counted, and without a word of consent nothing is done. The ledger of erasures
// stays as it is: the next start repeats what the copy does not know.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../base/errors.ts'
import { schemaIn, withCopy } from '../store/copy.ts'
import { DATABASE } from '../store/open.ts'
import { raw } from '../store/query.ts'
import { putBack, wayBack, waysBack } from '../store/way-back.ts'
import { migrations } from '../schema/migrations.ts'
import type { TableName } from '../schema/tables.ts'
import { readLedger } from '../privacy/ledger.ts'

/** What others were promised, by the tables that hold it: rows that the copy does not have would be lost. */
const PROMISES = {
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
  /** Mails posted, messages received, events, and other rows (accounts, domains, contacts and so on) since the copy. */
  mails: number
  messages: number
  events: number
  settings: number
  /** Erasures since: their requests would be lost, and they are repeated from the ledger. */
  erasures: number
  /** Recipients that have their mail, and would get it again. */
  again: number
}

export interface WayBack {
  /** The schemas of the database in place and of the copy, and the version that knows that of the copy. */
  from: number
  to: number
  version: string | undefined
  copy: string
}

/** The copy of before the last upgrade. Throws an OperatorError when there is none. */
export function findWayBack(dataDir: string): WayBack {
  const file = join(dataDir, DATABASE)
  if (!existsSync(file)) throw new OperatorError(`${dataDir} holds no database (${DATABASE}).`)
  const { schema: from, version: writer = 'an older version' } = schemaIn(file)
  if (from < migrations.length)
    throw new OperatorError(`${file} has schema ${from}, as ${writer} wrote it: it was not upgraded. Start ${writer}.`)
  const copies = waysBack(dataDir).filter((schema) => schema < from)
  if (copies.length === 0)
    throw new OperatorError(
      `There is no copy from before an upgrade beside ${file}; each is kept for a week, or until the next erasure. Restore a backup that was made before it: "postrider restore --replace FILE".`,
    )
  const to = Math.max(...copies)
  const copy = wayBack(file, to)
  return { from, to, copy, version: schemaIn(copy).version }
}

/** What would be lost. */
export async function lossOf(dataDir: string, { copy }: WayBack): Promise<Loss> {
  const loss: Loss = { mails: 0, messages: 0, events: 0, settings: 0, erasures: 0, again: 0 }
  const erased = readLedger(dataDir).map(({ id }) => id)
  await withCopy(copy, (before) =>
    withCopy(join(dataDir, DATABASE), async (now) => {
      const has = (reader: typeof now, table: string): boolean =>
        reader.all(raw(`select 1 from sqlite_schema where type = 'table' and name = '${table}'`)).length > 0
      for (const [what, tables] of Object.entries(PROMISES) as [keyof typeof PROMISES, readonly string[]][])
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

/** Puts the copy in place; the newer database lies beside it, and is removed after a week as copies are. */
export const goBack = (dataDir: string, { copy, from }: WayBack): void => putBack(dataDir, copy, from)
