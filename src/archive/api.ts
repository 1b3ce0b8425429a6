// The results of backups and drills, for operators.
import { z } from 'zod'
import { define } from '../jsonapi/define.ts'
import { time, words } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { valuesOf } from '../store/schema/tables.ts'
import { db } from '../store/query.ts'

/** Two months of daily backups to three destinations, with drills. */
const SHOWN = 200

const figure = (about: string) => field(z.int().nullable(), { about })

export const serverBackups = define('server-backups', {
  table: 'backup_runs',
  about: 'Results of backups and restore tests, by destination. For operators who are signed in to the console.',
  extension: true,
  attributes: {
    kind: field(z.enum(valuesOf('backup_runs', 'kind')), {
      about: 'Kind of run: a backup, or a drill (a restore test).',
    }),
    target: words('Destination as configured, without secrets.'),
    name: field(z.string().nullable(), { about: 'Name of the backup at the destination. Null if none was created.' }),
    started_at: time('Time when the run started. For a backup, the time of its data.'),
    ended_at: time('Time when the run finished.'),
    octets: figure('Bytes that a backup sent, or that a restore test read. Null if unknown.'),
    files: figure('Number of files in the backup. Null if unknown.'),
    rows: figure('Number of rows of all tables in the backup. Null if unknown.'),
    way: field(z.enum(valuesOf('backup_runs', 'way')).nullable(), {
      about:
        'Depth of a drill. `restored`: the data was restored. `read`: the stored object was only read. Null for a backup.',
    }),
    fault: field(z.string().nullable(), { about: 'Reason for the failure and what to do. Null if the run succeeded.' }),
  },
  actions: [
    {
      kind: 'view',
      path: '/server/backups',
      id: 'listServerBackups',
      scope: 'tokens:write',
      operator: true,
      person: true,
      params: ['page'],
      about: `List the last ${SHOWN} backups and drills, newest first.`,
      run: ({ parts }) => parts.store.all(db.selectFrom('backup_runs').selectAll().orderBy('key', 'desc').limit(SHOWN)),
    },
  ],
})
