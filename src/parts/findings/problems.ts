// Problems that the running server reports itself (base/trouble.ts), as findings. /health shows them at once. The
// operator gets an email if they last.
import { MINUTE } from '../../base/clock.ts'
import { execLine } from '../../base/container.ts'
import type { Trouble, Troubles } from '../../base/trouble.ts'
import { fail, type LastingFinding } from './finding.ts'

/** Fixes that finders share with the problems of the same part. */
export const FIXES = {
  disk: 'Free space, move data_dir to a larger disk, or shorten "[retention]".',
  database:
    'Check that the disk of data_dir has free space, no errors (dmesg) and is not mounted read-only. Then run "postrider verify".',
  damage: 'Run "postrider verify" to see what is corrupt, and restore it from a backup (docs/backup.md).',
  date: 'Compare "date" with a correct clock and set it. If it is correct, the server accepts it within a day.',
  key: 'Restore instance.key from a backup before you stop the server. Without it, DKIM keys and secrets cannot be decrypted.',
  log: 'The log (event "problem_reported") contains the error. For disks, memory and file descriptors, see docs/operate.md.',
} as const

/** By the name of the problem: the subject of the email, the id of the finding, and the fix. */
const PROBLEMS: Readonly<Record<string, { alert: string; id: string; fix: string }>> = {
  storage: { alert: 'disk', id: 'disk space', fix: FIXES.disk },
  store: { alert: 'database', id: 'the database', fix: FIXES.database },
  damage: { alert: 'database', id: 'corrupt email', fix: FIXES.damage },
  integrity: { alert: 'database', id: 'corrupt pages', fix: FIXES.damage },
  files: { alert: 'database', id: 'corrupt files', fix: FIXES.damage },
  key: { alert: 'key', id: 'installation key', fix: FIXES.key },
  clock: { alert: 'clock', id: 'date', fix: FIXES.date },
  machine: {
    alert: 'queue',
    id: 'queue',
    fix: `Check that no other server uses this data, then run "${execLine('adopt')}".`,
  },
}

function findingOf({ name, sentence, since }: Trouble): LastingFinding {
  const { alert, fix, id } = PROBLEMS[name] ?? { alert: name, id: name, fix: FIXES.log }
  return { ...fail(id, sentence.replace(/\.$/, ''), fix), alert: { subject: alert, lasts: MINUTE }, since }
}

/** Returns the present problems, oldest first. */
export const problemFindings = (troubles: Pick<Troubles, 'list'>): LastingFinding[] => troubles.list().map(findingOf)
