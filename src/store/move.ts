// The functions that change a status, of one row or of many. They follow the state table: an event that the table does
// not list for a row's status has no effect.
import { counters } from '../base/counters.ts'
import type { Machine, Row } from './states/machine.ts'
import type { Tx } from './database.ts'
import { raw } from './query.ts'

/** Further columns to set, by name. */
export type ColumnValues = Record<string, unknown>

/**
 * Moves one row by the table and sets further columns with it. Returns the table's row (from, on, to, by, emits), or
 * undefined when the row is deleted or its status does not allow the move.
 */
export function move<Status extends string, On extends string>(
  tx: Tx,
  machine: Machine<Status, On>,
  key: number,
  on: On,
  set: ColumnValues = {},
): Row<Status, On> | undefined {
  return along(tx, machine, key, [rowFor(tx, machine, key, on)], set)?.[0]
}

/** Several moves of a row, one after the other, each with the columns to set. */
export type Steps<On extends string> = readonly (readonly [on: On, set: ColumnValues])[]

/**
 * Moves one row by several events, one after the other. In one statement if the row has the status from which the first
 * move starts. Returns the table's rows of the moves that were made.
 */
export function moveThrough<Status extends string, On extends string>(
  tx: Tx,
  machine: Machine<Status, On>,
  key: number,
  steps: Steps<On>,
): Row<Status, On>[] {
  const [first] = steps
  let row = first && onlyRow(machine, first[0])
  const rows = [row]
  for (const [on] of steps.slice(1)) rows.push((row = row && machine.next(row.to, on)))
  const whole = along(tx, machine, key, rows, Object.assign({}, ...steps.map(([, set]) => set)) as ColumnValues)
  return whole ?? steps.map(([on, set]) => move(tx, machine, key, on, set)).filter((made) => made !== undefined)
}

/** The table's row for an event that starts from one status only. */
function onlyRow<Status extends string, On extends string>(
  { rows }: Machine<Status, On>,
  on: On,
): Row<Status, On> | undefined {
  const [row, ...others] = rows.filter((each) => each.on === on)
  return others.length === 0 ? row : undefined
}

/** The table's row for an event: the status is read only when the event starts from several. */
function rowFor<Status extends string, On extends string>(
  tx: Tx,
  machine: Machine<Status, On>,
  key: number,
  on: On,
): Row<Status, On> | undefined {
  const only = onlyRow(machine, on)
  if (only) return only
  const current = tx.first<{ status: Status }>(raw(`select status from ${machine.table} where key = ?`, [key]))
  return current && machine.next(current.status, on)
}

/** Moves a row from the status before the first of these moves to the status after the last. */
function along<Status extends string, On extends string>(
  tx: Tx,
  { table }: Machine<Status, On>,
  key: number,
  path: readonly (Row<Status, On> | undefined)[],
  set: ColumnValues,
): Row<Status, On>[] | undefined {
  const rows = path.filter((row) => row !== undefined)
  const [first] = rows
  const last = rows.at(-1)
  if (!first || !last || rows.length < path.length) return undefined
  const columns = Object.keys(set).map((column) => `, "${column}" = ?`)
  const sql = `update ${table} set status = ?${columns.join('')} where key = ? and status = ?`
  if (tx.run(raw(sql, [last.to, ...Object.values(set), key, first.from])).changes === 0) return undefined
  if (table === 'deliveries') countFate(tx, last.on, last.to)
  return rows
}

export interface Many {
  /** SQL of further columns to set, "attempts = attempts + 1, leased_until = ?". */
  set: string
  /** SQL that selects among the rows whose status allows the move. */
  where: string
  /** The parameters of `set`, then those of `where`. */
  parameters: readonly unknown[]
}

/** Moves every selected row whose status allows it. Returns the number of rows. */
export function moveAll<Status extends string, On extends string>(
  tx: Tx,
  machine: Machine<Status, On>,
  on: On,
  many: Many,
): number {
  return tx.run(raw(statementOf(machine, on, many), [...many.parameters])).changes
}

/** Moves every selected row whose status allows it. Returns the rows after the move. */
export function takeAll<Output>(tx: Tx, machine: Machine<string, string>, on: string, many: Many): Output[] {
  return tx.all(raw<Output>(`${statementOf(machine, on, many)} returning *`, [...many.parameters]))
}

/** One statement for all rows that the event moves. Throws when the table leads them to different statuses. */
function statementOf<Status extends string, On extends string>(
  { rows, table }: Pick<Machine<Status, On>, 'rows' | 'table'>,
  on: On,
  { set, where }: Many,
): string {
  const moves = rows.filter((row) => row.on === on)
  const [to, ...others] = new Set(moves.map((row) => row.to))
  if (to === undefined || others.length > 0) throw new Error(`${table}: ${on} does not lead to one status.`)
  const from = moves.map((row) => `'${row.from}'`)
  // A single status is written with "=", because the partial indexes are defined so.
  const stands = from.length === 1 ? `status = ${from[0]}` : `status in (${from.join(', ')})`
  return `update ${table} set status = '${to}', ${set} where ${stands} and ${where}`
}

const FATES = ['delivered', 'bounced', 'complained', 'failed', 'rejected', 'suppressed']

/** Counts the result of a delivery, after the commit. */
function countFate(tx: Tx, on: string, status: string): void {
  const outcome = on === 'defer' ? 'deferred' : FATES.includes(status) ? status : undefined
  if (outcome !== undefined) tx.afterCommit(() => counters.mails.add({ outcome }))
}
