// Sends what is new of a copy to one destination, in this order: spool files, the database if it is due, the backup's
// own object, and its manifest. Each shared object is noted once it is stored, so that an interrupted backup resumes.
import { statSync } from 'node:fs'
import { iso } from '../base/clock.ts'
import { must, OperatorError } from '../base/errors.ts'
import { version } from '../base/version.ts'
import type { Deps } from '../views/command/open.ts'
import { fingerprintOf } from '../privacy/ledger.ts'
import { DATABASE } from '../store/open.ts'
import { CONTENTS, LOG, SPOOL, type BackupContents } from './backup-archive.ts'
import { manifestName, nameOf, nextTime, objectsAt, type Manifest, type SentObject } from './catalog.ts'
import { isDirectory, type Destination } from './destinations/destination.ts'
import { DestinationFault } from './destinations/fault.ts'
import { isWholeDue, keepKnown, MOST_PACKED, readKnown, usable, type KnownObjects } from './known.ts'
import { packed, type PackedFile } from './pack.ts'
import { changedPages, logOf, pagesIn, rootOf } from './pages.ts'
import { recipientsOf } from './recipients.ts'
import type { CopiedFile, Snapshot } from './snapshot.ts'

export interface Taken extends Snapshot {
  /** The time of the copy (ms). */
  at: number
  rows: Record<string, number>
  schema: number
  /** The path of the database, and the digests of its pages. */
  database: string
  digests: Buffer
  /** The names of spool files without an expiry date. */
  lasting: ReadonlySet<string>
}

export interface SendJob {
  /** As in "backup.to". */
  target: string
  taken: Taken
}

export interface SentBackup {
  manifest: Manifest
  /** Bytes that were sent, without the manifest. */
  octets: number
  known: KnownObjects
  /** All objects at the destination, as `objectsAt` returns them. */
  objects: ReadonlyMap<string, number>
}

interface BackupUpload {
  taken: Taken
  /** Gets each shared object that is stored. */
  known: KnownObjects
  /** Stores an object, with `kind` a shared one. */
  put: (files: readonly PackedFile[], kind?: 'db' | 'files') => Promise<SentObject>
  keep: (pages?: boolean) => void
}

const isSpool = ({ name }: CopiedFile): boolean => name.startsWith(SPOOL)

/** Throws an OperatorError. */
export async function send(
  { config, keyring }: Deps,
  destination: Destination,
  { taken, target }: SendJob,
): Promise<SentBackup> {
  const recipients = recipientsOf(config)
  const isSealed = recipients.length > 0
  if (!isSealed && !isDirectory(target))
    throw new OperatorError(
      `${destination.title} only accepts encrypted backups, because they contain all keys; run "postrider backup key", or set "backup.recipients".`,
    )
  const fingerprint = fingerprintOf(keyring)
  const before = await objectsAt(destination)
  const at = nextTime(before.keys(), fingerprint, taken.at)
  const spool = new Set(taken.files.filter(isSpool).map(({ name }) => name))
  const known = usable(readKnown(config.data_dir, target, recipients), before, spool, taken.at)
  let octets = 0
  const sending: BackupUpload = {
    taken,
    known,
    put: async (files, kind) => {
      const name = nameOf(at, fingerprint, isSealed, kind)
      let plain = 0
      const bytes = packed(files, recipients, (more) => (plain += more))
      const stored = await destination.put(name, bytes)
      octets += stored.size
      return { name, ...stored, plain }
    },
    keep: (pages) => keepKnown(config.data_dir, target, known, pages),
  }
  await sendSpool(sending)
  const changed = await sendDatabase(sending)
  const whole = must(known.whole, 'The whole database')
  const objects = [whole.object, ...known.packs.map(({ object }) => object)]
  const own = await sending.put(ownFiles(sending, objects, changed))
  const { rows, schema } = taken
  const made = { made_at: iso(taken.at), fingerprint, version, schema, recipients }
  const manifest: Manifest = { format: 2, ...own, files: taken.files.length, rows, ...made, objects }
  const after = await complete(destination, manifest)
  whole.sent += own.size
  sending.keep()
  return { manifest, octets, known, objects: after }
}

/** Stores the spool files that no object contains. Those that expire and those that do not are in different objects. */
async function sendSpool({ keep, known, put, taken }: BackupUpload): Promise<void> {
  const has = new Set(known.packs.flatMap(({ files }) => files))
  const fresh = taken.files.filter((file) => isSpool(file) && !has.has(file.name))
  // Sorted, because names begin with their time.
  const sorted = fresh.toSorted((one, other) => (one.name < other.name ? -1 : 1))
  for (const files of Map.groupBy(sorted, ({ name }) => taken.lasting.has(name.slice(SPOOL.length))).values())
    for (const group of groupsOf(files)) {
      known.packs.push({ object: await put(group, 'files'), files: group.map(({ name }) => name) })
      keep()
    }
}

/** Groups of files with up to MOST_PACKED bytes. */
function groupsOf(files: readonly CopiedFile[]): CopiedFile[][] {
  const groups: CopiedFile[][] = []
  let bytes = Infinity
  for (const file of files) {
    const { size } = statSync(file.path)
    bytes += size
    if (bytes <= MOST_PACKED) groups.at(-1)?.push(file)
    else {
      groups.push([file])
      bytes = size
    }
  }
  return groups
}

/** Stores the whole database if it is due, or if half of it has changed. Returns the pages that differ from it. */
async function sendDatabase({ keep, known, put, taken }: BackupUpload): Promise<number[]> {
  const changed = known.digests ? changedPages(taken.digests, known.digests) : []
  if (known.whole && !isWholeDue(known, taken.at) && changed.length < pagesIn(taken.digests) / 2) return changed
  const object = await put([{ name: DATABASE, path: taken.database }], 'db')
  known.whole = { object, at: taken.at, sent: 0, root: rootOf(taken.digests) }
  known.digests = taken.digests
  keep(true)
  return []
}

/** The files of the backup's own object. */
function ownFiles(
  { known, taken }: BackupUpload,
  objects: readonly SentObject[],
  changed: readonly number[],
): PackedFile[] {
  const present = new Set(taken.files.map(({ name }) => name))
  const packs = new Map(known.packs.map(({ files, object }) => [object.name, files]))
  const left = objects.map(({ name }) => [name, packs.get(name)?.filter((file) => !present.has(file)) ?? []] as const)
  const contents: BackupContents = { database: rootOf(taken.digests), objects: Object.fromEntries(left) }
  return [
    { name: CONTENTS, bytes: once(contents) },
    ...taken.files.filter((file) => !isSpool(file) && file.name !== DATABASE),
    ...(changed.length > 0 ? [{ name: LOG, bytes: logOf(taken.database, changed) }] : []),
  ]
}

async function* once(value: unknown): AsyncIterable<Uint8Array> {
  yield Buffer.from(`${JSON.stringify(value, null, 2)}\n`)
}

/** Stores the manifest. Returns the objects at the destination. Throws if one of this backup was deleted by others. */
async function complete(destination: Destination, manifest: Manifest): Promise<Map<string, number>> {
  await destination.put(manifestName(manifest.name), once(manifest))
  const objects = await objectsAt(destination)
  const lost = manifest.objects.find(({ name }) => !objects.has(name))
  if (!lost) return objects
  await destination.remove(manifestName(manifest.name))
  throw new DestinationFault('missing', destination.title, `${lost.name} was deleted during the backup`, false, GONE)
}

const GONE = 'make sure that only this server writes and deletes there, and try again'
