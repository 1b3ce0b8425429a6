// Describes a table, once: its columns with their types and with their rules for digests, checks, erasure and clock
// changes. A file of this directory describes the tables of one owner. schema/tables.ts collects them, and derives the
// types and lists.
import type { Generated } from 'kysely'

export interface Column<Type = unknown> {
  sql: 'integer' | 'real' | 'text' | 'blob'
  null: boolean
  /** The form that `verify` requires. */
  form?: 'time' | 'flag' | 'json'
  /** The only values of the column, which `verify` requires. */
  values?: readonly string[]
  digested?: true
  undigested?: string
  person?: PersonalColumn
  nobody?: string
  held?: true
  ahead?: Ahead
  harmless?: string
  /** For the compiler alone. */
  readonly type?: Type
}

/**
 * How erasure treats a text that may name a person:
 * - `mark`: replaces the address in it with a mark (store/erasing.ts).
 * - `hash`: replaces the text with a hash.
 * - `own step`: the forget.ts of the owner has a step for it.
 */
type PersonalColumn = 'mark' | 'hash' | 'own step'

/**
 * How a time in the future changes after the clock was set back (D120):
 * - `wait`: a planned time. It is moved by as much as the clock.
 * - `past`: a moment that has passed. It becomes the present time.
 * - `forget`: the row is deleted.
 * - `own step`: store/set-back.ts has a statement for it.
 * - `within`: an expiry, at most so many ms from the present time, for the rows of `where`.
 */
type Ahead = 'wait' | 'past' | 'forget' | 'own step' | readonly { within: number; where?: string }[]

interface ColumnOptions {
  null?: true
  /** The digest of the row covers the column (store/digests.ts). Triggers of a migration hold the same list. */
  digested?: true
  /** Why no digest covers a text: a test wants a reason. */
  undigested?: string
}

interface TextOptions extends ColumnOptions {
  person?: PersonalColumn
  /** Why a text names no person who can request erasure: a test requires `person` or a reason. */
  nobody?: string
  /** The column contains addresses of recipients, so it shows whether an account has data about one. */
  held?: true
}

type ColumnOf<Type, Given> = Column<Given extends { null: true } ? Type | null : Type>

const column = (sql: Column['sql'], options: Omit<Partial<Column>, 'type'> = {}): Column<never> => ({
  sql,
  null: false,
  ...options,
})

/** The integer key, assigned by SQLite. */
export const key = (): Column<Generated<number>> => column('integer')
export const id = (options: TextOptions = {}): Column<string> =>
  column('text', { undigested: 'an id', nobody: 'an id', ...options })
export const integer = <Given extends ColumnOptions>(options?: Given): ColumnOf<number, Given> =>
  column('integer', options)
export const integerOf = <Value extends number>(): Column<Value> => column('integer')
export const real = <Given extends ColumnOptions>(options?: Given): ColumnOf<number, Given> => column('real', options)
export const flag = <Given extends ColumnOptions>(options?: Given): ColumnOf<0 | 1, Given> =>
  column('integer', { form: 'flag', ...options })
export const blob = <Given extends TextOptions>(options?: Given): ColumnOf<Uint8Array, Given> => column('blob', options)
export const text = <Given extends TextOptions>(options: Given): ColumnOf<string, Given> => column('text', options)
/** JSON text of the shape in its comment. */
export const json = <Given extends TextOptions>(options: Given): ColumnOf<string, Given> =>
  column('text', { form: 'json', ...options })
/** One of few values, such as states. */
export const oneOf = <const Value extends string, Given extends ColumnOptions>(
  values: readonly Value[],
  options?: Given,
): ColumnOf<Value, Given> =>
  column('text', { values, undigested: 'one of few words', nobody: 'one of few words', ...options })
/** A word of a long list, such as the type of an event. */
export const word = <Value extends string>(options: ColumnOptions = {}): Column<Value> =>
  column('text', { undigested: 'a word of a list', nobody: 'a word of a list', ...options })
/** Milliseconds since the epoch. */
export const time = <Given extends ColumnOptions & { ahead?: Ahead }>(options?: Given): ColumnOf<number, Given> =>
  column('integer', { form: 'time', ...options })
/** A time that usually lies ahead. `harmless`: why it stays unchanged after the clock was set back. */
export const due = <Given extends ColumnOptions & ({ ahead: Ahead } | { harmless: string })>(
  options: Given,
): ColumnOf<number, Given> => column('integer', { form: 'time', ...options })

export interface Table {
  /** The number of the table in `digests`, which must never change. */
  digest?: number
  /** Why the rows have no digest. */
  undigested?: string
  /** The column that numbers the rows, where it is not `key`. */
  by?: string
  /** SQL for the rows of an account, if it is not `user_key = ?`. Its one parameter is the account's key. */
  owned?: string
  columns: Record<string, Column>
}

/** The tables of one owner: the one directory of src/ that writes them. */
export const tablesOf = <const All extends Record<string, Table>>(
  owner: string,
  all: All,
): { [Name in keyof All]: All[Name] & { owner: string } } =>
  // Object.fromEntries forgets the names.
  Object.fromEntries(Object.entries(all).map(([name, table]) => [name, { ...table, owner }])) as never
