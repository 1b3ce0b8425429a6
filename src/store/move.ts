// The one function that changes a status. It reads the state table: an event that the table does not know for the row's
// present status changes nothing and answers undefined.
import type { Machine, Row } from '../states/machine.ts'
import type { Tx } from './database.ts'
import { raw } from './query.ts'

/**
 * Moves one row by the table, setting further columns with it. Returns the table's row (from, on, to, by, emits), or
 * undefined when the row is gone or the move is not legal from where it stands.
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
  return row
}
