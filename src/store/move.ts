// The functions that change a status, of one row or of many. They follow the state table: an event that the table does
// not list for a row's status changes nothing.
import { counters } from '../base/counters.ts'
import type { Machine, Row } from '../states/machine.ts'
import type { Tx } from './database.ts'
import { raw } from './query.ts'

/**
 * Moves one row by the table and sets further columns with it. Returns the table's row (from, on, to, by, emits), or
 * undefined when the row is gone or its status does not allow the move.
 */
export function move<Status extends string, On extends string>(
  tx: Tx,
  machine: Machine<Status, On>,
  key: number,
  on: On,
  set: Record<string, unknown> = {},
): Row<Status, On> | undefined {
  const current = tx.first<{ status: Status }>(raw(`select status from ${machine.table} where key = ?`, [key]))
  const row = current && machine.next(current.status, on)
  if (!row) return undefined
  const columns = Object.keys(set).map((column) => `, "${column}" = ?`)
  tx.run(
    raw(`update ${machine.table} set status = ?${columns.join('')} where key = ? and status = ?`, [
      row[2],
      ...Object.values(set),
      key,
      row[0],
    ]),
  )
  if (machine.table === 'deliveries') countFate(tx, on, row[2])
  return row
}

export interface Many {
  /** SQL of further columns to set, "attempts = attempts + 1, leased_until = ?". */
  set: string
  /** SQL that selects among the rows whose status allows the move. */
  where: string
  /** The parameters of `set`, then those of `where`. */
  parameters: readonly unknown[]
}

/** Moves every selected row whose status allows it; returns how many. */
export function moveAll<Status extends string, On extends string>(
  tx: Tx,
  machine: Machine<Status, On>,
  on: On,
  many: Many,
): number {
  return tx.run(raw(statementOf(machine, on, many), [...many.parameters])).changes
}

/** The same, and returns the rows after the move. */
export function takeAll<Output>(tx: Tx, machine: Machine<string, string>, on: string, many: Many): Output[] {
  return tx.all(raw<Output>(`${statementOf(machine, on, many)} returning *`, [...many.parameters]))
}

/** One statement for all rows that the event moves. Throws when the table leads them to different statuses. */
function statementOf<Status extends string, On extends string>(
  { rows, table }: Pick<Machine<Status, On>, 'rows' | 'table'>,
  on: On,
  { set, where }: Many,
): string {
  const moves = rows.filter((row) => row[1] === on)
  const [to, ...others] = new Set(moves.map((row) => row[2]))
  if (to === undefined || others.length > 0) throw new Error(`${table}: ${on} does not lead to one status.`)
  const from = moves.map((row) => `'${row[0]}'`)
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
