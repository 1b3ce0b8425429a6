// Finds a backup at a place and brings it here as a zip. What was cut, changed, sealed to others, made by a newer
// version or by another installation is refused, each with a sentence, before anything is changed (B14).
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { KEY_FILE, openKeyring } from '../base/keyring.ts'
import { bufferCollector } from '../base/native.ts'
import { fingerprintOf } from '../privacy/ledger.ts'
import { migrations } from '../schema/migrations.ts'
import { AHEAD, backupsAt, newestOf, readManifest, type StoredBackup, type Manifest } from './catalog.ts'
import { unpackTo } from './pack.ts'
import type { BackupPlace } from './places/place.ts'
import { demandRoomFor, type Room } from './room.ts'
import type { Transfer } from './transfer.ts'

export interface FetchWishes {
  /** The newest at this time (ms) or before it. */
  at?: number | undefined
  /** The fingerprint of an installation, or its beginning. */
  installation?: string | undefined
}

/** The fingerprint of the installation in a data directory; undefined when it has no key. */
export const fingerprintIn = (dataDir: string): string | undefined =>
  existsSync(join(dataDir, KEY_FILE)) ? fingerprintOf(openKeyring(dataDir)) : undefined

/** The backup at a place that is meant. Throws an OperatorError when there is none, or it is not clear which. */
export async function findBackup(
  place: BackupPlace,
  own: string | undefined,
  wishes: FetchWishes,
  now: number,
): Promise<Manifest> {
  const { at, installation } = wishes
  const all = await backupsAt(place)
  const wanted = installation ?? own
  const ours = all.filter(({ fingerprint }) => fingerprint.startsWith(wanted ?? ''))
  const others = [...new Set(all.map(({ fingerprint }) => fingerprint))]
  if (wanted === undefined && others.length > 1)
    throw new OperatorError(
      `${place.title} has backups of ${others.length} installations (${others.join(', ')}); name one with --installation.`,
    )
  const meant = [...new Set(ours.map(({ fingerprint }) => fingerprint))]
  if (meant.length > 1 && wanted !== undefined)
    throw new OperatorError(
      `${place.title} has backups of ${meant.length} installations that begin with ${wanted} (${meant.join(', ')}); give more of its digits.`,
    )
  const found = newestOf(ours, at ?? now + AHEAD)
  if (!found) throw new OperatorError(nothing(place.title, all, ours, at))
  const manifest = await readManifest(place, found.name)
  if (manifest.schema > migrations.length) throw tooNew(found.name, manifest.schema, manifest.version)
  return manifest
}

/** What is to be done with a backup whose manifest is missing, as the end of a sentence. */
export const WITHOUT_MANIFEST =
  'where it is not being written now, it was copied without it: copy that too, or restore the file itself by its name'

function nothing(
  title: string,
  all: readonly StoredBackup[],
  ours: readonly StoredBackup[],
  at: number | undefined,
): string {
  const complete = ours.filter((each) => each.complete)
  if (complete.length > 0) {
    const oldest = iso(complete.at(-1)?.at ?? 0)
    return at === undefined
      ? `${title} has only backups of a time to come, the first of ${oldest}; set the clock of this machine, or name a time with --at.`
      : `${title} has no backup of ${iso(at)} or before; the oldest is of ${oldest}.`
  }
  const [newest] = ours
  if (newest) return `${title} has no backup with its manifest: ${newest.name}.json is missing; ${WITHOUT_MANIFEST}.`
  const others = [...new Set(all.map(({ fingerprint }) => fingerprint))]
  return others.length === 0
    ? `${title} has no backup; see that the target is the right one.`
    : `${title} has no backup of this installation, only of ${others.join(', ')}; name that one with --installation if it is meant.`
}

export const tooNew = (name: string, schema: number, version?: string): OperatorError =>
  new OperatorError(
    `${name} was made by a newer version of Postrider${version === undefined ? '' : ` (${version})`}: its schema is ${schema}, and this one knows ${migrations.length}; install that version first.`,
  )

interface Fetching {
  identities: readonly string[]
  room: Room
  transfer: Transfer
}

/** As much of a place as a backup is read from. */
export type ReadPlace = Pick<BackupPlace, 'title' | 'get'>

/** The octets of a backup as they lie there, proven by its manifest at their end. Throws an OperatorError. */
async function* provenOctets(place: ReadPlace, manifest: Manifest, transfer: Transfer): AsyncIterable<Uint8Array> {
  const { name, sha256, size } = manifest
  const hash = createHash('sha256')
  const collect = bufferCollector()
  let seen = 0
  for await (const piece of place.get(name)) {
    hash.update(piece)
    collect(piece.length)
    seen += piece.length
    transfer.add(piece.length)
    yield piece
  }
  if (seen !== size)
    throw new OperatorError(
      `${place.title}: ${name} has ${seen} octets and its manifest says ${size}; use another backup.`,
    )
  if (hash.digest('hex') !== sha256)
    throw new OperatorError(`${place.title}: ${name} was changed after it was written; use another backup.`)
}

/** Brings a backup into a new zip file. */
export async function fetchTo(file: string, place: ReadPlace, manifest: Manifest, fetching: Fetching): Promise<void> {
  const { identities, room, transfer } = fetching
  // The zip and what is in it lie there together for a while.
  demandRoomFor(room, manifest.name, 2 * manifest.plain)
  try {
    await unpackTo(file, provenOctets(place, manifest, transfer), { shown: manifest.name, identities, room, manifest })
  } finally {
    fetching.transfer.end()
  }
}

/** Reads a backup to its end without opening it. Throws an OperatorError when it is not as it was written. */
export async function provedAt(place: ReadPlace, manifest: Manifest, transfer: Transfer): Promise<void> {
  for await (const _ of provenOctets(place, manifest, transfer));
  transfer.end()
}
