// The tables of backups.
import { id, integer, key, oneOf, tablesOf, text, time } from './table.ts'

const PLACE = 'names a place of the operator'

export const archiveTables = tablesOf('archive', {
  /** What became of each backup at each of its targets, and of each drill; kept for 400 days. */
  backup_runs: {
    undigested: 'a record of what was done; the backups themselves are elsewhere',
    columns: {
      key: key(),
      id: id(),
      kind: oneOf(['backup', 'drill']),
      /** The target as the configuration names it; '' when none was reached. */
      target: text({ undigested: PLACE, nobody: PLACE }),
      /** The name of the backup there; null when it came to none. */
      name: text({ null: true, undigested: PLACE, nobody: PLACE }),
      started_at: time({ ahead: 'past' }),
      ended_at: time({ ahead: 'past' }),
      /** Of the object at the target. */
      octets: integer({ null: true }),
      files: integer({ null: true }),
      /** Rows of the tables that are counted. */
      rows: integer({ null: true }),
      /** How a drill looked: the data were put back, or the octets alone were read. */
      way: oneOf(['restored', 'read'], { null: true }),
      /** Why it failed, in one sentence; null: it did not. */
      fault: text({ null: true, undigested: PLACE, nobody: 'what a target or the disk answered' }),
    },
  },
})
