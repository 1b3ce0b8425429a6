// Every table, as described once in the files of this directory: the types for Kysely, and the columns as one list for
// digests, checks of values, erasure and clock changes. A test compares the descriptions with the columns that the
// migrations create. Times are ms, booleans 0 or 1.
import type { Insertable, Selectable } from 'kysely'
import { archiveTables } from './archive.ts'
import { auditTables } from './audit.ts'
import { campaignsTables } from './campaigns.ts'
import { deliveryTables } from './delivery.ts'
import { domainsTables } from './domains.ts'
import { userTables } from './users.ts'
import { formsTables } from './forms.ts'
import { imagesTables } from './images.ts'
import { inboundTables } from './inbound.ts'
import { mailTables } from './mail.ts'
import { privacyTables } from './privacy.ts'
import { recipientsTables } from './recipients.ts'
import { reportsTables } from './reports.ts'
import { reputationTables } from './reputation.ts'
import { storeTables } from './store.ts'
import { suppressionsTables } from './suppressions.ts'
import type { Column, Table } from './table.ts'
import { warmupTables } from './warmup.ts'
import { watchTables } from './watch.ts'
import { webhooksTables } from './webhooks.ts'

const ALL = {
  ...domainsTables,
  ...userTables,
  ...auditTables,
  ...mailTables,
  ...deliveryTables,
  ...suppressionsTables,
  ...reputationTables,
  ...reportsTables,
  ...watchTables,
  ...storeTables,
  ...webhooksTables,
  ...imagesTables,
  ...campaignsTables,
  ...formsTables,
  ...privacyTables,
  ...recipientsTables,
  ...inboundTables,
  ...warmupTables,
  ...archiveTables,
}

type TypesOf<Columns> = { [Name in keyof Columns]: Columns[Name] extends Column<infer Type> ? Type : never }

export type TableName = keyof typeof ALL
export type Tables = { [Name in TableName]: TypesOf<(typeof ALL)[Name]['columns']> }
export type RowOf<T extends TableName> = Selectable<Tables[T]>
export type NewRow<T extends TableName> = Insertable<Tables[T]>

/** The descriptions by name. The one directory of src/ that writes a table is its `owner`. */
export const TABLES: Readonly<Record<TableName, Table & { owner: string }>> = ALL

export interface NamedColumn extends Column {
  table: TableName
  name: string
}

export const COLUMNS: readonly NamedColumn[] = Object.entries(TABLES).flatMap(([table, { columns }]) =>
  Object.entries(columns).map(([name, column]) => ({ ...column, table: table as TableName, name })),
)

/** The names of a table's columns that meet a condition, in their order. */
export const columnsOf = (table: TableName, holds: (column: Column) => boolean): string[] =>
  COLUMNS.filter((column) => column.table === table && holds(column)).map(({ name }) => name)

/** A condition of SQL that holds for an account's rows of a table. Its one parameter is the key of the user. */
export const ownedBy = (table: TableName): string => TABLES[table].owned ?? 'user_key = ?'

/** The only values of a column that is described by `oneOf`. */
export function valuesOf<T extends TableName, C extends keyof RowOf<T> & string>(
  table: T,
  column: C,
): readonly (RowOf<T>[C] & string)[] {
  const values = TABLES[table].columns[column]?.values
  if (values === undefined) throw new TypeError(`${table}.${column} is not one of few values`)
  return values as readonly (RowOf<T>[C] & string)[]
}
