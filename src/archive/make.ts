// `postrider backup now`: one consistent copy, put to each target, complete when its manifest is there (B10). Runs in a
// process of its own, by hand or by the schedule of the server.
//
// Guarantees: the copy is verified before it is sealed, and only it takes room on this disk; what failed at one target
// fails at no other; each target gets a row, also when nothing could be made.
import { join } from 'node:path'
import { titlesOf } from '../base/backup-target.ts'
import { iso, SECOND } from '../base/clock.ts'
import { readSign } from '../base/doubt.ts'
import { codeOrMessage, OperatorError } from '../base/errors.ts'
import { freeOn, reserveOf } from '../base/space.ts'
import { version } from '../base/version.ts'
import { sizeOf } from '../checks/figures.ts'
import type { Deps } from '../commands/open.ts'
import { fingerprintOf } from '../privacy/ledger.ts'
import { countsIn } from '../store/copy.ts'
import { DATABASE, explainedFile } from '../store/open.ts'
import { backupsAt, clearOut, manifestName, nameOf, type Manifest } from './catalog.ts'
import { holdCopies, withFolder } from '../store/leavings.ts'
import { packed } from './pack.ts'
import { isDirectory, placeOf } from './place-of.ts'
import type { BackupPlace } from './places/place.ts'
import { recipientsOf } from './recipients.ts'
import { recordRuns, type Run } from './runs.ts'
import { takeSnapshot, type Snapshot } from './snapshot.ts'

export interface BackupOutcome {
  target: string
  /** null when it failed. */
  name: string | null
  octets: number | null
  files: number | null
  seconds: number
  removed: string[]
  fault: string | null
}

interface Taken extends Snapshot {
  at: number
  rows: Record<string, number>
  schema: number
}

interface Hears {
  tell: (sentence: string) => void
  /** Hears of each target as it ends. */
  ended: (outcome: BackupOutcome) => void
}

/** Makes a backup to each of the configured targets. Throws an OperatorError when there is none to make it to. */
export async function backUpNow(deps: Deps, { ended: told, tell }: Hears): Promise<BackupOutcome[]> {
  const { clock, config, store } = deps
  const { to } = config.backup
  if (to.length === 0)
    throw new OperatorError('"backup.to" is empty; set it to where backups go (docs/backup.md), or name a file.')
  const release = holdCopies(config.data_dir)
  const began = clock.now()
  const outcomes: BackupOutcome[] = []
  try {
    await withSnapshot(deps, tell, async (taken) => {
      for (const [index, target] of to.entries()) {
        const outcome = await backUpTo(deps, { target, title: titlesOf(to)[index] ?? target, taken })
        outcomes.push(outcome)
        told(outcome)
      }
    })
    return outcomes
  } catch (thrown) {
    const ended = { started_at: began, ended_at: clock.now() }
    const runs = titlesOf(to)
      .slice(outcomes.length)
      .map((target): Run => ({ kind: 'backup', target, ...ended, fault: sentenceOf(thrown, target) }))
    // Where the disk takes no row, the first failure is the one to tell.
    await recordRuns(store, runs, clock.now()).catch(() => {})
    throw thrown
  } finally {
    release()
  }
}

/** Runs `work` with a copy in the data directory, which goes with it. */
async function withSnapshot<T>(deps: Deps, tell: (sentence: string) => void, work: (taken: Taken) => Promise<T>) {
  const { clock, config } = deps
  demandRoom(deps)
  return withFolder(config.data_dir, async (place) => {
    const at = clock.now()
    const snapshot = await takeSnapshot(deps, { place, force: false, outside: (inner) => inner(), tell })
    return work({ ...snapshot, at, ...countsIn(join(place, DATABASE)) })
  })
}

/** The copy must not take the room that the server keeps for mail under way. */
function demandRoom({ config }: Deps): void {
  const { data_dir } = config
  const file = join(data_dir, DATABASE)
  const needed = sizeOf(file) + sizeOf(`${file}-wal`)
  const free = freeOn(data_dir)
  const mb = (octets: number): number => Math.ceil(octets / 1e6)
  if (free - needed < reserveOf(config))
    throw new OperatorError(
      `The disk of ${data_dir} has ${mb(free)} MB free, too little for a copy of the database (${mb(needed)} MB) beside the reserve of ${mb(reserveOf(config))} MB ("storage.reserve"); free space.`,
    )
}

interface To {
  target: string
  title: string
  taken: Taken
}

/** Puts the copy to one target, and records what became of it. */
async function backUpTo(deps: Deps, to: To): Promise<BackupOutcome> {
  const { clock, store } = deps
  const began = clock.now()
  let place: BackupPlace | undefined
  const outcome: Omit<BackupOutcome, 'seconds'> = {
    target: to.title,
    name: null,
    octets: null,
    files: null,
    removed: [],
    fault: null,
  }
  try {
    place = placeOf(deps.config, to.target, clock)
    const manifest = await putTo(deps, place, to)
    Object.assign(outcome, { name: manifest.name, octets: manifest.size, files: manifest.files })
    outcome.removed = await tidied(deps, place, manifest.fingerprint)
  } catch (thrown) {
    outcome.fault = sentenceOf(thrown, to.title)
  } finally {
    await place?.close().catch(() => {})
  }
  const { fault, files, name, octets } = outcome
  const ended = clock.now()
  const rows = name === null ? null : sum(to.taken.rows)
  await recordRuns(
    store,
    [{ kind: 'backup', target: to.title, started_at: began, ended_at: ended, name, octets, files, rows, fault }],
    ended,
  )
  return { ...outcome, seconds: (ended - began) / SECOND }
}

const sum = (rows: Record<string, number>): number => Object.values(rows).reduce((all, one) => all + one, 0)

/** A failure as a sentence; a fault of this program as one too, because the row is all that is seen of it. */
export function sentenceOf(thrown: unknown, title: string): string {
  const known = explainedFile(thrown)
  return known instanceof OperatorError
    ? known.message
    : `${title}: ${codeOrMessage(thrown)}, which is a fault of Postrider; try again, and report it when it happens again.`
}

/** Puts the octets, sees that they arrived, and writes the manifest. */
async function putTo({ config, keyring }: Deps, place: BackupPlace, { target, taken }: To): Promise<Manifest> {
  const recipients = recipientsOf(config)
  if (recipients.length === 0 && !isDirectory(target))
    throw new OperatorError(
      `${place.title} gets no backup that is not sealed, for it holds all keys; run "postrider backup key", or set "backup.recipients".`,
    )
  const fingerprint = fingerprintOf(keyring)
  const name = await freeName(place, taken.at, fingerprint, recipients.length > 0)
  let plain = 0
  const { sha256, size } = await place.put(
    name,
    packed(taken.files, recipients, (octets) => (plain += octets)),
  )
  const found = place.writesOnly ? undefined : await place.head(name)
  if (!place.writesOnly && found?.size !== size)
    throw new OperatorError(
      `${place.title}: ${name} has ${found?.size ?? 'no'} octets there and should have ${size}; see what the place did with it, and try again.`,
    )
  const manifest: Manifest = {
    format: 1,
    name,
    made_at: iso(taken.at),
    size,
    sha256,
    plain,
    files: taken.files.length,
    rows: taken.rows,
    fingerprint,
    version,
    schema: taken.schema,
    recipients,
  }
  // What only stores gets the backup alone: it could not tell the two apart.
  if (!place.writesOnly)
    await place.put(manifestName(name), once(Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`)))
  return manifest
}

async function* once(octets: Buffer): AsyncIterable<Uint8Array> {
  yield octets
}

/** A name that nothing has: a clock that was set back must not lead to one that is taken. */
async function freeName(place: BackupPlace, at: number, fingerprint: string, sealed: boolean): Promise<string> {
  if (place.writesOnly) return nameOf(at, fingerprint, sealed)
  const taken = new Set((await backupsAt(place)).map(({ name }) => name))
  for (let second = at; ; second += SECOND) {
    const name = nameOf(second, fingerprint, sealed)
    if (!taken.has(name)) return name
  }
}

/** Removes what is not kept. Nothing is removed while the date is in doubt (D120). */
async function tidied({ clock, config }: Deps, place: BackupPlace, fingerprint: string): Promise<string[]> {
  if (place.writesOnly || readSign(config.data_dir)?.doubted) return []
  return clearOut(place, fingerprint, { keep: config.backup.keep, now: clock.now() })
}
