// The required form of values that no digest covers: JSON that parses, times in the range of a Date, numbers and flags,
// known states; and an open delivery of a campaign must go to the recipient that its mail names. `verify` checks them.
import type Database from 'better-sqlite3'
import { LAST_TIME } from '../base/clock.ts'
import { COLUMNS, type NamedColumn } from '../schema/tables.ts'

/** The rows for which a condition holds: their keys if the table has keys, else their number; undefined: none. */
function rowsWhere(database: Database.Database, table: string, condition: string): string | undefined {
  const named = database.prepare(`select 1 from pragma_table_info(?) where name = 'key'`).get(table) !== undefined
  const found = database
    .prepare(`select ${named ? 'key' : `'?'`} from ${table} where ${condition} limit 20`)
    .pluck()
    .all() as (number | string)[]
  return found.length === 0 ? undefined : named ? `row ${found.join(', ')}` : `${found.length} rows`
}

/** One sentence for names of viruses that are not in the form in which the scanner's names are stored. */
function impossibleNames(database: Database.Database): string[] {
  if (database.prepare(`select 1 from pragma_table_info('inbound_messages') where name = 'virus'`).get() === undefined)
    return []
  const names = database.prepare('select key, virus from inbound_messages where virus is not null')
  const rows: number[] = []
  // In SQL a text would end at its first NUL.
  for (const { key, virus } of names.iterate() as Iterable<{ key: number; virus: string }>)
    if (!/^[\x20-\x7e]{1,200}$/.test(virus) && rows.length < 20) rows.push(key)
  return rows.length > 0 ? [`virus in inbound_messages is not a name: row ${rows.join(', ')}`] : []
}

const NUMBER = 'is not a valid number'

/** What a value of a column that is not null must not be, as SQL, and how a fault is called. */
type ValueCheck = [applies: (column: NamedColumn) => boolean, wrong: (column: NamedColumn) => string, words: string]

const outside = (type: string, most: number) => (column: NamedColumn) =>
  `(typeof("${column.name}") <> '${type}' or "${column.name}" not between 0 and ${most})`

const CHECKS: readonly ValueCheck[] = [
  [({ form }) => form === 'time', outside('integer', LAST_TIME), 'is not a time'],
  [({ form }) => form === 'flag', outside('integer', 1), 'is not yes or no'],
  // All are counts, codes or keys.
  [({ form, sql }) => sql === 'integer' && form === undefined, outside('integer', Number.MAX_SAFE_INTEGER), NUMBER],
  [({ sql }) => sql === 'real', outside('real', Number.MAX_SAFE_INTEGER), NUMBER],
  [
    ({ values }) => values !== undefined,
    ({ name, values }) => `"${name}" not in (${(values ?? []).map((value) => `'${value}'`).join(', ')})`,
    'has an unknown value',
  ],
  [({ form }) => form === 'json', ({ name }) => `not json_valid("${name}")`, 'is not JSON'],
]

/** One sentence for each column with values that do not have the required form. Reads every such column. */
export function malformedRows(database: Database.Database): string[] {
  const has = database.prepare('select 1 from pragma_table_info(?) where name = ?')
  // The copy may be of an older version.
  const there = COLUMNS.filter(({ name, table }) => has.get(table, name) !== undefined)
  const found = CHECKS.flatMap(([applies, wrong, words]) =>
    there.filter(applies).flatMap((column) => {
      const { name, table } = column
      const rows = rowsWhere(database, table, `"${name}" is not null and ${wrong(column)}`)
      return rows ? [`${name} in ${table} ${words}: ${rows}`] : []
    }),
  )
  found.push(...impossibleNames(database))
  if (has.get('outbound_emails', 'campaign_key') === undefined) return found
  const strayed = database
    .prepare(
      `select d.key from deliveries d join outbound_emails e on e.key = d.email_key
       where e.campaign_key is not null and d.status in ('queued', 'active', 'held') and lower(d.address) <> lower(e."to")
       limit 20`,
    )
    .pluck()
    .all() as number[]
  if (strayed.length > 0)
    found.push(
      `The recipient of a campaign's mail is not the one that the mail names: row ${strayed.join(', ')} of deliveries`,
    )
  return found
}
