// Statements that read many texts, such as searches, run in slices, so that they do not block other work. All searches
// together run one slice in each turn of the event loop, and a slice stops when its time is used.
import type Database from 'better-sqlite3'
import type { Query } from './query.ts'
import type { Reader } from './tx.ts'

/** The longest time of a slice (ms), but for the row that is being read when it ends. */
const LONGEST = 10

/** When the present slice ends. */
let end = 0
/** The turn of the last requested slice. */
let turn: Promise<void> = Promise.resolve()

/** Defines `spent()` in SQL, which is 1 when the time of the present slice is used. */
export function defineSpent(database: Database.Database): void {
  database.function('spent', { directOnly: true }, () => Number(performance.now() >= end))
}

/**
 * A condition in SQL for the rows of a slice: they fit, or the time is used, which is looked at for one row of `each`
 * by their keys. The statement has the condition as its column `fits` too, and reads rows in the order of its answer.
 */
export const untilSpent = (fits: string, each = 1): string => `((${fits}) or (key % ${each} = 0 and spent()))`

/** Resolves when the next slice has its turn. */
export async function takeTurn(): Promise<void> {
  turn = turn.then(() => new Promise((resolve) => void setImmediate(resolve)))
  await turn
  end = performance.now() + LONGEST
}

/** The rows of a slice that match. `cut`: the row at which it stopped, because its time was used. */
export async function readSlice<Row>(
  reader: Reader,
  statement: Query<Row & { fits: number | null }>,
): Promise<{ rows: Row[]; cut: Row | undefined }> {
  await takeTurn()
  const rows = reader.all(statement, ({ fits }) => fits !== 1)
  const cut = rows.at(-1)?.fits === 1 ? undefined : rows.pop()
  return { rows, cut }
}
