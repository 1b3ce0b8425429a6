// The tables of backups.
import { id, integer, key, oneOf, tablesOf, text, time } from './table.ts'

const PLACE = 'names a destination of the operator'

export const archiveTables = tablesOf('archive', {
  /** The result of each backup at each destination, and of each restore test, kept for 400 days. */
  backup_runs: {
    undigested: 'a record of what was done; the backups themselves are elsewhere',
    columns: {
      key: key(),
      id: id(),
      kind: oneOf(['backup', 'drill']),
      /** The destination as configured, or '' if none was reached. */
      target: text({ undigested: PLACE, nobody: PLACE }),
      /** The name of the backup, or null if no backup was stored. */
      name: text({ null: true, undigested: PLACE, nobody: PLACE }),
      /** Of a backup: the time of its data. */
      started_at: time({ ahead: 'past' }),
      ended_at: time({ ahead: 'past' }),
      /** Bytes that a backup sent, or that a drill read. */
      octets: integer({ null: true }),
      files: integer({ null: true }),
      /** Rows of all tables. */
      rows: integer({ null: true }),
      /** Whether a drill restored the data, or only read the bytes. */
      way: oneOf(['restored', 'read'], { null: true }),
      /** Why it failed, in one sentence, or null if it succeeded. */
      fault: text({ null: true, undigested: PLACE, nobody: 'what a target or the disk answered' }),
    },
  },
})
