// What became of backups and drills, for operators (B13).
import { z } from 'zod'
import { define } from '../jsonapi/define.ts'
import { EXTENSION, time, words } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { valuesOf } from '../schema/tables.ts'
import { db } from '../store/query.ts'

/** Two months of a daily backup to three targets with its drills. */
const SHOWN = 200

const figure = (about: string) => field(z.int().nullable(), { about })

export const serverBackups = define('server-backups', {
  table: 'backup_runs',
  about: `What became of a backup at one target, or of a drill; for operators who are signed in. ${EXTENSION}`,
  attributes: {
    kind: field(z.enum(valuesOf('backup_runs', 'kind')), {
      about: 'A backup, or a drill that puts one back on trial.',
    }),
    target: words('Where to, as the configuration names it, without secrets.'),
    name: field(z.string().nullable(), { about: 'The name of the backup there; null when it came to none.' }),
    started_at: time('When it began.'),
    ended_at: time('When it ended.'),
    octets: figure('Octets of the object at the target.'),
    files: figure('Files in the backup.'),
    rows: figure('Rows of all tables in the backup.'),
    way: field(z.enum(valuesOf('backup_runs', 'way')).nullable(), {
      about: 'How a drill looked: the data were put back (restored), or the octets alone were read (read).',
    }),
    fault: field(z.string().nullable(), { about: 'Why it failed, with what to do; null: it did not.' }),
  },
  actions: [
    {
      kind: 'view',
      path: '/server/backups',
      id: 'listServerBackups',
      scope: 'tokens:write',
      operator: 'person',
      params: ['page'],
      about: `List the last ${SHOWN} backups and drills, the newest first. ${EXTENSION}`,
      run: ({ parts }) => parts.store.all(db.selectFrom('backup_runs').selectAll().orderBy('key', 'desc').limit(SHOWN)),
    },
  ],
})
