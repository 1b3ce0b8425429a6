// The backups at a destination: their names, their manifests, which backup to select, and which to delete. A manifest
// is written last, so that a backup with one is complete. It lists the objects that the backup shares with others.
//
// Guarantees: only backups whose name and manifest are from this installation are deleted. Regardless of the clock, the
// newest complete backup is never deleted, and at most a quarter of them at a time. A shared object is deleted only if
// no manifest lists it, and not within a day, because an upload in progress may use it.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { BACKUP_PREFIX } from '../base/backup-target.ts'
import { DAY, HOUR, iso, dayOf, SECOND } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { jsonOf } from '../base/json.ts'
import { KEY_FILE, openKeyring } from '../base/keyring.ts'
import { counted } from '../base/text.ts'
import { fingerprintOf } from '../privacy/ledger.ts'
import { migrations } from '../store/schema/migrations.ts'
import type { Destination } from './destinations/destination.ts'

const NAME = /^postrider-(\d{8}T\d{6}Z)-([0-9a-f]{32})(?:\.(db|files)-[0-9a-f]{8})?\.zip\.zst(\.age)?$/
const MANIFEST = '.json'
/** Of a backup with 5,000 shared objects, which are 600 GB. */
export const MOST_MANIFEST = 1024 * 1024
/** Maximum number of backup objects at a destination. Hourly backups for a year are fewer. */
const MOST_OBJECTS = 20_000
/** How long an object without a manifest may be an upload in progress. */
const UNFINISHED = DAY

const figure = z.int().min(0)

export const objectOf = z.object({
  name: z.string().max(200),
  /** Of the object, in bytes. */
  size: figure,
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** Bytes of the zip inside. */
  plain: figure,
})

/** An object at a destination, as it was stored. */
export type SentObject = z.output<typeof objectOf>

const manifestOf = objectOf.extend({
  /** A backup of format 1 is a single object. */
  format: z.union([z.literal(1), z.literal(2)]),
  made_at: z.iso.datetime(),
  files: figure,
  /** Rows by table. */
  rows: z.record(z.string().max(64), figure),
  fingerprint: z.string().regex(/^[0-9a-f]{32}$/),
  version: z.string().regex(/^\d{1,9}\.\d{1,9}\.\d{1,9}(?:-[\w.-]{1,40})?$/),
  schema: figure,
  recipients: z.array(z.string().max(100)).max(20),
  /** The objects that the backup shares with others. */
  objects: z.array(objectOf).default([]),
})

export type Manifest = z.output<typeof manifestOf>

/** The total size of the objects of a backup. */
export const sizeOfAll = ({ objects, size }: Manifest): number => objects.reduce((sum, each) => sum + each.size, size)

/** An object as described by its name. */
interface NamedObject {
  name: string
  /** ms */
  at: number
  fingerprint: string
  sealed: boolean
  /** The kind of an object that backups share. Undefined if it has the name of its backup. */
  shared: 'db' | 'files' | undefined
}

export interface StoredBackup extends Omit<NamedObject, 'shared'> {
  /** Bytes of the objects that were stored with it. */
  size: number
  /** Whether it has a manifest. */
  complete: boolean
}

/** The time in a name: 20260115T020000Z. */
const stamp = (at: number): string => iso(at).replace(/[-:]|\.\d+/g, '')

/** The name of a backup, or with `kind` of an object that backups share. */
export const nameOf = (at: number, fingerprint: string, sealed: boolean, kind?: NamedObject['shared']): string =>
  `postrider-${stamp(at)}-${fingerprint}${kind ? `.${kind}-${randomBytes(4).toString('hex')}` : ''}.zip.zst${sealed ? '.age' : ''}`

export const manifestName = (name: string): string => `${name}${MANIFEST}`

/** Parses a name. Returns undefined if it is not the name of an object of a backup. */
export function readName(name: string): NamedObject | undefined {
  const [, time, fingerprint, shared, age] = NAME.exec(name) ?? []
  if (time === undefined || fingerprint === undefined) return undefined
  const at = Date.parse(time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
  return Number.isNaN(at)
    ? undefined
    : { name, at, fingerprint, sealed: age !== undefined, shared: shared as NamedObject['shared'] }
}

/** The sizes of all objects of backups by their names. Throws an OperatorError if there are too many. */
export async function objectsAt(destination: Destination): Promise<Map<string, number>> {
  const objects = new Map<string, number>()
  for await (const { name, size } of destination.list()) {
    if (!name.startsWith(BACKUP_PREFIX)) continue
    objects.set(name, size)
    // A truncated list could contain a backup without its manifest, which would be deleted as incomplete.
    if (objects.size > MOST_OBJECTS)
      throw new OperatorError(
        `${destination.title} has more than ${MOST_OBJECTS} backup objects; delete some, or use another directory or prefix.`,
      )
  }
  return objects
}

/** All backups of every installation, newest first. Throws an OperatorError if there are too many. */
export const backupsAt = async (destination: Destination): Promise<StoredBackup[]> =>
  backupsIn(await objectsAt(destination))

function backupsIn(objects: ReadonlyMap<string, number>): StoredBackup[] {
  const named = [...objects].flatMap(([name, size]) => {
    const known = readName(name)
    return known ? [{ ...known, size }] : []
  })
  const together = Map.groupBy(named, ({ at, fingerprint }) => `${at} ${fingerprint}`)
  return named
    .filter(({ shared }) => !shared)
    .map(({ at, fingerprint, name, sealed, size }) => {
      const sent = together.get(`${at} ${fingerprint}`)?.filter(({ shared }) => shared) ?? []
      const sum = sent.reduce((all, each) => all + each.size, size)
      return { name, at, fingerprint, sealed, size: sum, complete: objects.has(manifestName(name)) }
    })
    .sort((one, other) => other.at - one.at || (other.name > one.name ? 1 : -1))
}

/** Throws an OperatorError if it is not the manifest of this backup. */
export async function readManifest(destination: Destination, name: string): Promise<Manifest> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of destination.get(manifestName(name))) {
    size += piece.length
    if (size > MOST_MANIFEST) break
    pieces.push(piece)
  }
  const manifest = size > MOST_MANIFEST ? undefined : parseManifest(Buffer.concat(pieces).toString(), name)
  if (manifest) return manifest
  throw new OperatorError(`${destination.title}: ${manifestName(name)} does not belong to ${name}; use another backup.`)
}

/** Undefined if it is not the manifest of this object. */
export function parseManifest(text: string, name: string): Manifest | undefined {
  const { data } = manifestOf.safeParse(jsonOf(text))
  return data?.name === name && data.fingerprint === (readName(name)?.fingerprint ?? data.fingerprint)
    ? data
    : undefined
}

/** Backups from further in the future were made while the clock was ahead, and are ignored. */
export const AHEAD = DAY

/**
 * The time in the name of the next backup of an installation: later than all of its objects, so that it is the newest
 * one even if the clock was set back.
 */
export const nextTime = (names: Iterable<string>, fingerprint: string, now: number): number =>
  [...names].reduce((next, name) => {
    const object = readName(name)
    const counts = object?.fingerprint === fingerprint && object.at <= now + AHEAD
    return counts ? Math.max(next, object.at + SECOND) : next
  }, now)

/** The newest complete backup at a time (ms) or before. */
export const newestOf = (list: readonly StoredBackup[], until = Infinity): StoredBackup | undefined =>
  list.find(({ at, complete }) => complete && at <= until)

/**
 * The backups to delete: complete ones that are not the newest of one of the hours before the newest backup, or of one
 * of the last days, weeks and months with a backup. The oldest first, at most a quarter. Days, weeks and months without
 * a backup do not count. Backups from the future are kept in addition.
 */
export function surplus(list: readonly StoredBackup[], keep: Config['backup']['keep'], now: number): StoredBackup[] {
  const complete = list.filter((each) => each.complete && each.at <= now + AHEAD)
  const kept = new Set<StoredBackup>(complete.slice(0, 1))
  const newestOfEach = (periodOf: (at: number) => number | string, count: number): void => {
    const periods = new Set<number | string>()
    for (const each of complete) {
      const period = periodOf(each.at)
      if (periods.has(period)) continue
      if (periods.size >= count) return
      periods.add(period)
      kept.add(each)
    }
  }
  const hourOf = (at: number): number => Math.floor(at / HOUR)
  const newest = complete[0]?.at ?? 0
  const hours = new Set(complete.map(({ at }) => hourOf(at)).filter((hour) => hour > hourOf(newest) - keep.hourly))
  newestOfEach(hourOf, hours.size)
  newestOfEach((at) => dayOf(at), keep.daily)
  // 1970-01-01 was a Thursday, and weeks start on Monday.
  newestOfEach((at) => Math.floor((at / DAY + 3) / 7), keep.weekly)
  newestOfEach((at) => iso(at).slice(0, 7), keep.monthly)
  const left = complete.filter((each) => !kept.has(each)).toReversed()
  return left.slice(0, Math.floor(complete.length / 4))
}

/** Objects without a manifest that are too old to be an upload in progress. */
export const unfinished = (list: readonly StoredBackup[], now: number): StoredBackup[] =>
  list.filter(({ at, complete }) => !complete && now - at > UNFINISHED)

export interface Clearing {
  /** As `objectsAt` returned them. */
  objects: ReadonlyMap<string, number>
  fingerprint: string
  keep: Config['backup']['keep']
  now: number
  /** Whether to delete shared objects too, which reads all manifests. */
  shared: boolean
}

/** Deletes expired and incomplete backups. Returns the names of the deleted objects, without the manifests. */
export async function clearOut(
  destination: Destination,
  { fingerprint, keep, now, objects, shared }: Clearing,
): Promise<string[]> {
  const ours = backupsIn(objects).filter((each) => each.fingerprint === fingerprint)
  const gone = new Set<string>()
  const remove = async (name: string): Promise<void> => {
    await destination.remove(name)
    gone.add(name)
  }
  for (const { name } of surplus(ours, keep, now)) {
    const manifest = await readManifest(destination, name).catch(() => undefined)
    if (manifest?.fingerprint !== fingerprint) continue
    // The manifest first: if this is interrupted, the next run deletes the object as incomplete.
    await destination.remove(manifestName(name))
    await remove(name)
  }
  for (const { name } of unfinished(ours, now)) await remove(name)
  if (!shared) return [...gone]
  const used = new Set<string>()
  // A manifest that cannot be read may list any of them.
  for (const { complete, name } of ours)
    if (complete && !gone.has(name))
      for (const each of (await readManifest(destination, name)).objects) used.add(each.name)
  for (const name of objects.keys()) {
    const known = readName(name)
    const isUnused = known?.shared && known.fingerprint === fingerprint && !used.has(name)
    if (isUnused && now - known.at > UNFINISHED) await remove(name)
  }
  return [...gone]
}

/** Which backup to select. */
export interface BackupSelection {
  /** The newest at this time (ms) or before. */
  at?: number | undefined
  /** The start of an installation's fingerprint. */
  installation?: string | undefined
}

/** The fingerprint of the installation in a data directory, or undefined if it has no key. */
export const fingerprintIn = (dataDir: string): string | undefined =>
  existsSync(join(dataDir, KEY_FILE)) ? fingerprintOf(openKeyring(dataDir)) : undefined

/**
 * Selects a backup. Throws an OperatorError if no backup matches, or several do. `skipped` is called with the name of
 * the newest backup if it is newer than the selected one, but its manifest or its own object is missing.
 */
export async function findBackup(
  destination: Destination,
  own: string | undefined,
  { at, installation }: BackupSelection,
  now: number,
  skipped: (name: string) => void = () => {},
): Promise<Manifest> {
  const objects = await objectsAt(destination)
  const all = backupsIn(objects)
  const wanted = installation ?? own
  const ours = all.filter(({ fingerprint }) => fingerprint.startsWith(wanted ?? ''))
  const others = [...new Set(all.map(({ fingerprint }) => fingerprint))]
  if (wanted === undefined && others.length > 1)
    throw new OperatorError(
      `${destination.title} has backups of ${counted(others.length, 'installation')} (${others.join(', ')}); choose one with --installation.`,
    )
  const matching = [...new Set(ours.map(({ fingerprint }) => fingerprint))]
  if (matching.length > 1 && wanted !== undefined)
    throw new OperatorError(
      `${destination.title} has backups of ${counted(matching.length, 'installation')} whose id starts with ${wanted} (${matching.join(', ')}); add more digits.`,
    )
  const found = newestOf(ours, at ?? now + AHEAD)
  if (!found) throw new OperatorError(noneText(destination.title, all, ours, at))
  const manifest = await readManifest(destination, found.name)
  if (manifest.schema > migrations.length) throw tooNew(found.name, manifest.schema, manifest.version)
  const [newer] = [...objects.keys()]
    .flatMap((name) => readName(name.endsWith(MANIFEST) ? name.slice(0, -MANIFEST.length) : name) ?? [])
    .filter((each) => each.fingerprint === found.fingerprint && each.shared === undefined && each.at > found.at)
    .toSorted((one, other) => other.at - one.at)
  if (newer && at === undefined) skipped(newer.name)
  return manifest
}

/** The advice if the manifest of a backup is missing: the end of a sentence. */
export const WITHOUT_MANIFEST =
  'if the backup is not being written now, it was copied without its manifest: copy that too, or restore the file by its name'

function noneText(
  title: string,
  all: readonly StoredBackup[],
  ours: readonly StoredBackup[],
  at: number | undefined,
): string {
  const complete = ours.filter((each) => each.complete)
  if (complete.length > 0) {
    const oldest = iso(complete.at(-1)?.at ?? 0)
    return at === undefined
      ? `${title} has only backups with a future date, the first from ${oldest}; set the clock of this machine, or add --at.`
      : `${title} has no backup made at or before ${iso(at)}; the oldest is from ${oldest}.`
  }
  const [newest] = ours
  if (newest) return `${title} has no backup with its manifest: ${newest.name}.json is missing; ${WITHOUT_MANIFEST}.`
  const others = [...new Set(all.map(({ fingerprint }) => fingerprint))]
  return others.length === 0
    ? `${title} has no backup; check that the destination is the right one.`
    : `${title} has no backup of this installation, only of ${others.join(', ')}; choose one with --installation.`
}

export const tooNew = (name: string, schema: number, version?: string): OperatorError =>
  new OperatorError(
    `${name} was made by a newer version of Postrider${version === undefined ? '' : ` (${version})`} with schema ${schema} (this version: ${migrations.length}); install that version first.`,
  )
