// A state machine is a table: from, on, to, by, and the event that the move emits. All code follows the table: the
// store turns it into `update … where status = from`, the API derives the moves that a PATCH can request, tests compare
// every pair with the specification, and the documentation prints the table.
import type { EventType } from './events.ts'

/** The actor of a move: the owner through the API, the operator on the command line, or Postrider automatically. */
export type By = 'owner' | 'operator' | 'auto'

export interface Row<Status extends string, On extends string> {
  readonly from: Status
  readonly on: On
  readonly to: Status
  readonly by: By
  readonly emits: EventType | undefined
}

export interface Machine<Status extends string, On extends string> {
  readonly table: string
  readonly rows: readonly Row<Status, On>[]
  /** The row for a status and an event, or undefined if the move is not allowed. */
  next(from: Status, on: On): Row<Status, On> | undefined
}

/** Throws at load when two rows share (from, on), because the table would be ambiguous. */
export function machine<const Status extends string, const On extends string>(
  table: string,
  lines: readonly (readonly [from: Status, on: On, to: Status, by: By, emits?: EventType])[],
): Machine<Status, On> {
  const rows = lines.map(([from, on, to, by, emits]): Row<Status, On> => ({ from, on, to, by, emits }))
  const index = new Map<string, Row<Status, On>>()
  for (const row of rows) {
    const key = `${row.from} ${row.on}`
    if (index.has(key)) throw new Error(`${table}: two rows for ${key}`)
    index.set(key, row)
  }
  return { table, rows, next: (from, on) => index.get(`${from} ${on}`) }
}
