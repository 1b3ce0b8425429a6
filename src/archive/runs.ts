// Stores the results of backups and drills.
import { DAY } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { NewRow } from '../store/schema/tables.ts'
import type { Store } from '../store/database.ts'
import { db } from '../store/query.ts'

/** How long results are kept. */
const KEPT = 400 * DAY

export type Run = Pick<NewRow<'backup_runs'>, 'kind' | 'target' | 'started_at' | 'ended_at'> &
  Partial<Pick<NewRow<'backup_runs'>, 'name' | 'octets' | 'files' | 'rows' | 'way' | 'fault'>>

export const recordRuns = (store: Pick<Store, 'write'>, runs: readonly Run[], now: number): Promise<void> =>
  store.write((tx) => {
    for (const run of runs) tx.run(db.insertInto('backup_runs').values({ id: newId(now), ...run }))
    tx.run(db.deleteFrom('backup_runs').where('ended_at', '<', now - KEPT))
  })
