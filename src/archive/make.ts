// `postrider backup now`: stores one consistent copy at each destination, and completes it with a manifest. Runs in its
// own process, manually or by the schedule of the server. The row of a backup starts at the time of its data.
//
// Guarantees: the copy is verified first, and only the copy needs space on this disk. A failure at one destination does
// not affect the others. Each destination gets a row, even if no backup could be made.
import { join } from 'node:path'
import { titlesOf } from '../base/backup-target.ts'
import { DAY, HOUR, SECOND } from '../base/clock.ts'
import { readSign } from '../base/doubt.ts'
import { codeOrMessage, OperatorError } from '../base/errors.ts'
import { freeOn, reserveOf } from '../base/space.ts'
import { sizeOf } from '../checks/figures.ts'
import type { Deps } from '../views/command/open.ts'
import { countsIn } from '../store/copy.ts'
import { DATABASE, explainedFile } from '../store/open.ts'
import { SPOOL } from './backup-archive.ts'
import { clearOut } from './catalog.ts'
import { holdCopies, withFolder } from '../store/leftovers.ts'
import { lastingFiles } from './integrity.ts'
import { isWholeDue, keepKnown, readKnown } from './known.ts'
import { digestsOf } from './pages.ts'
import { destinationOf, type Destination } from './destinations/destination.ts'
import { recipientsOf } from './recipients.ts'
import { recordRuns, type Run } from './runs.ts'
import { send, type SendJob, type SentBackup, type Taken } from './send.ts'
import { takeSnapshot } from './snapshot.ts'
import type { Tell } from './transfer.ts'

export interface BackupOutcome {
  target: string
  /** Null if it failed. */
  name: string | null
  /** Bytes that were sent, without the manifest. */
  octets: number | null
  files: number | null
  seconds: number
  removed: string[]
  fault: string | null
}

interface BackupEvents {
  tell: Tell
  /** Called for each destination when it is finished. */
  ended: (outcome: BackupOutcome) => void
}

/** Makes a backup to each configured destination. Throws an OperatorError without a destination. */
export async function backUpNow(deps: Deps, { ended: report, tell }: BackupEvents): Promise<BackupOutcome[]> {
  const { clock, config, store } = deps
  const { to } = config.backup
  if (to.length === 0)
    throw new OperatorError(
      '"backup.to" is empty; set it to one or more destinations (docs/backup.md), or run "postrider backup FILE".',
    )
  const release = holdCopies(config.data_dir)
  const began = clock.now()
  const outcomes: BackupOutcome[] = []
  try {
    await withSnapshot(deps, tell, async (taken) => {
      for (const [index, target] of to.entries()) {
        const outcome = await backUpTo(deps, { target, title: titlesOf(to)[index] ?? target, taken })
        outcomes.push(outcome)
        report(outcome)
      }
    })
    return outcomes
  } catch (thrown) {
    const ended = { started_at: began, ended_at: clock.now() }
    const runs = titlesOf(to)
      .slice(outcomes.length)
      .map((target): Run => ({ kind: 'backup', target, ...ended, fault: sentenceOf(thrown, target) }))
    // If the row cannot be stored, the first failure is reported.
    await recordRuns(store, runs, clock.now()).catch(() => {})
    throw thrown
  } finally {
    release()
  }
}

/** Runs `work` with a temporary copy in the data directory. */
async function withSnapshot<T>(deps: Deps, tell: Tell, work: (taken: Taken) => Promise<T>) {
  const { clock, config } = deps
  demandReserve(deps)
  return withFolder(config.data_dir, async (folder) => {
    const at = clock.now()
    const snapshot = await takeSnapshot(deps, { folder, force: false, tell, verified: verifiedFor(deps, at) })
    const database = join(folder, DATABASE)
    const [lasting, digests] = [await lastingFiles(folder), await digestsOf(database)]
    return work({ ...snapshot, at, database, digests, lasting, ...countsIn(database) })
  })
}

/**
 * The spool files that each destination has, so that they were verified before. Empty if a destination gets the whole
 * database: then all data is verified.
 */
function verifiedFor({ config }: Deps, now: number): Set<string> {
  try {
    const recipients = recipientsOf(config)
    const all = config.backup.to.map((target) => readKnown(config.data_dir, target, recipients))
    if (all.some((known) => isWholeDue(known, now))) return new Set()
    const [first, ...others] = all.map(({ packs }) => new Set(packs.flatMap(({ files }) => files)))
    const everywhere = [...(first ?? [])].filter((name) => others.every((names) => names.has(name)))
    return new Set(everywhere.map((name) => name.slice(SPOOL.length)))
  } catch {
    // A wrong key, which is reported for each destination.
    return new Set()
  }
}

/** The copy must not use the space that is reserved for the server. */
function demandReserve({ config }: Deps): void {
  const { data_dir } = config
  const file = join(data_dir, DATABASE)
  const needed = sizeOf(file) + sizeOf(`${file}-wal`)
  const free = freeOn(data_dir)
  const mb = (bytes: number): number => Math.ceil(bytes / 1e6)
  if (free - needed < reserveOf(config))
    throw new OperatorError(
      `The disk of ${data_dir} has ${mb(free)} MB free, but the backup needs ${mb(needed)} MB in addition to "storage.reserve" (${mb(reserveOf(config))} MB); free some space.`,
    )
}

/** Stores the copy at one destination, and records the result. */
async function backUpTo(deps: Deps, to: SendJob & { title: string }): Promise<BackupOutcome> {
  const { clock, store } = deps
  const began = clock.now()
  let destination: Destination | undefined
  const outcome: Omit<BackupOutcome, 'seconds'> = {
    target: to.title,
    name: null,
    octets: null,
    files: null,
    removed: [],
    fault: null,
  }
  try {
    destination = destinationOf(deps.config, to.target, clock)
    const sent = await send(deps, destination, to)
    Object.assign(outcome, { name: sent.manifest.name, octets: sent.octets, files: sent.manifest.files })
    outcome.removed = await tidied(deps, destination, sent, to.target)
  } catch (thrown) {
    outcome.fault = sentenceOf(thrown, to.title)
  } finally {
    await destination?.close().catch(() => {})
  }
  const { fault, files, name, octets } = outcome
  const ended = clock.now()
  const rows = name === null ? null : sum(to.taken.rows)
  await recordRuns(
    store,
    [{ kind: 'backup', target: to.title, started_at: to.taken.at, ended_at: ended, name, octets, files, rows, fault }],
    ended,
  )
  return { ...outcome, seconds: (ended - began) / SECOND }
}

const sum = (rows: Record<string, number>): number => Object.values(rows).reduce((all, one) => all + one, 0)

/** A failure as a sentence, even an internal error, because only the row is shown. */
export function sentenceOf(thrown: unknown, title: string): string {
  const known = explainedFile(thrown)
  return known instanceof OperatorError
    ? known.message
    : `${title}: internal error (${codeOrMessage(thrown)}); try again, and report it if it happens again.`
}

/** Deletes expired backups, except while the date is in doubt (D120). */
async function tidied({ clock, config }: Deps, destination: Destination, sent: SentBackup, target: string) {
  const { known, manifest, objects } = sent
  const now = clock.now()
  if (readSign(config.data_dir)?.doubted) return []
  const shared = Math.abs(now - known.cleared) >= DAY - HOUR
  const { fingerprint } = manifest
  const gone = await clearOut(destination, { objects, fingerprint, keep: config.backup.keep, now, shared })
  if (shared) keepKnown(config.data_dir, target, { ...known, cleared: now })
  return gone
}
