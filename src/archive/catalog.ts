// The backups at a place: their names, the manifest that is written last and makes one complete, which is the newest,
// and which are removed because there are enough.
//
// Guarantees: nothing is removed whose name and manifest are not of this installation; the newest complete backup is
// never removed, nor more than a quarter of all at a time, whatever the clock said (B12).
import { z } from 'zod'
import { DAY, iso } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { jsonOf } from '../base/json.ts'
import { OURS } from './places/backend.ts'
import type { BackupPlace } from './places/place.ts'

const NAME = /^postrider-(\d{8}T\d{6}Z)-([0-9a-f]{32})\.zip\.zst(\.age)?$/
const MANIFEST = '.json'
export const MOST_MANIFEST = 64 * 1024
/** The most objects of ours at a place; a backup each hour for a year is less. */
const MOST_OBJECTS = 20_000
/** An object without a manifest is one that is being written, for so long. */
const UNFINISHED = DAY

const figure = z.int().min(0)

const manifestOf = z.object({
  format: z.literal(1),
  name: z.string().max(200),
  made_at: z.iso.datetime(),
  /** Of the object. */
  size: figure,
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** Octets of the zip inside. */
  plain: figure,
  files: figure,
  /** Rows by table. */
  rows: z.record(z.string().max(64), figure),
  fingerprint: z.string().regex(/^[0-9a-f]{32}$/),
  version: z.string().regex(/^\d{1,9}\.\d{1,9}\.\d{1,9}(?:-[\w.-]{1,40})?$/),
  schema: figure,
  recipients: z.array(z.string().max(100)).max(20),
})

export type Manifest = z.output<typeof manifestOf>

/** A backup at a place, as its name tells. */
export interface StoredBackup {
  name: string
  /** ms */
  at: number
  fingerprint: string
  sealed: boolean
  size: number
  /** Whether its manifest is there. */
  complete: boolean
}

/** The time in a name: 20260115T020000Z. */
const stamp = (at: number): string => iso(at).replace(/[-:]|\.\d+/g, '')

export const nameOf = (at: number, fingerprint: string, sealed: boolean): string =>
  `postrider-${stamp(at)}-${fingerprint}.zip.zst${sealed ? '.age' : ''}`

export const manifestName = (name: string): string => `${name}${MANIFEST}`

/** What a name tells; undefined for a name of others. */
export function readName(name: string): Omit<StoredBackup, 'size' | 'complete'> | undefined {
  const [, time, fingerprint, age] = NAME.exec(name) ?? []
  if (time === undefined || fingerprint === undefined) return undefined
  const at = Date.parse(time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
  return Number.isNaN(at) ? undefined : { name, at, fingerprint, sealed: age !== undefined }
}

/** All backups at a place, of every installation, the newest first. Throws an OperatorError for too many. */
export async function backupsAt(place: BackupPlace): Promise<StoredBackup[]> {
  const objects = new Map<string, number>()
  for await (const { name, size } of place.list()) {
    // Others may keep many files there.
    if (!name.startsWith(OURS)) continue
    objects.set(name, size)
    // A list that is cut would show a backup without its manifest, as one that was never finished.
    if (objects.size > MOST_OBJECTS)
      throw new OperatorError(
        `${place.title} has more than ${MOST_OBJECTS} objects of backups; remove some, or use another folder or prefix.`,
      )
  }
  return [...objects]
    .flatMap(([name, size]) => {
      const known = readName(name)
      return known ? [{ ...known, size, complete: objects.has(manifestName(name)) }] : []
    })
    .sort((one, other) => other.at - one.at || (other.name > one.name ? 1 : -1))
}

/** The manifest of a backup. Throws an OperatorError for anything else. */
export async function readManifest(place: BackupPlace, name: string): Promise<Manifest> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of place.get(manifestName(name))) {
    size += piece.length
    if (size > MOST_MANIFEST) break
    pieces.push(piece)
  }
  const manifest = size > MOST_MANIFEST ? undefined : parseManifest(Buffer.concat(pieces).toString(), name)
  if (manifest) return manifest
  throw new OperatorError(`${place.title}: ${manifestName(name)} does not belong to ${name}; use another backup.`)
}

/** The manifest in a text; undefined when it is none, or that of another object. */
export function parseManifest(text: string, name: string): Manifest | undefined {
  const { data } = manifestOf.safeParse(jsonOf(text))
  return data?.name === name && data.fingerprint === (readName(name)?.fingerprint ?? data.fingerprint)
    ? data
    : undefined
}

/** Backups of later than so much after now are from when the clock was ahead: they count for nothing. */
export const AHEAD = DAY

/** The newest complete backup of the list, at a time (ms) or before it. */
export const newestOf = (list: readonly StoredBackup[], until = Infinity): StoredBackup | undefined =>
  list.find(({ at, complete }) => complete && at <= until)

/**
 * The backups that are not kept: complete ones that are not the newest of one of the last days, weeks and months that
 * have any. Days are counted by the backups that there are and not by the clock; those of a time to come stay, and take
 * the place of none. The oldest first, a quarter at most.
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
  newestOfEach((at) => Math.floor(at / DAY), keep.daily)
  // 1970-01-01 was a Thursday: weeks begin on Monday.
  newestOfEach((at) => Math.floor((at / DAY + 3) / 7), keep.weekly)
  newestOfEach((at) => iso(at).slice(0, 7), keep.monthly)
  const left = complete.filter((each) => !kept.has(each)).toReversed()
  return left.slice(0, Math.floor(complete.length / 4))
}

/** Objects without a manifest that nobody writes any more. */
export const unfinished = (list: readonly StoredBackup[], now: number): StoredBackup[] =>
  list.filter(({ at, complete }) => !complete && now - at > UNFINISHED)

/** Removes what is not kept, and what never became complete; returns the names. */
export async function clearOut(
  place: BackupPlace,
  fingerprint: string,
  { keep, now }: { keep: Config['backup']['keep']; now: number },
): Promise<string[]> {
  const ours = (await backupsAt(place)).filter((each) => each.fingerprint === fingerprint)
  const gone: string[] = []
  for (const { name } of surplus(ours, keep, now)) {
    const manifest = await readManifest(place, name).catch(() => undefined)
    if (manifest?.fingerprint !== fingerprint) continue
    // The manifest first: an object without one is removed by the next run.
    await place.remove(manifestName(name))
    await place.remove(name)
    gone.push(name)
  }
  for (const { name } of unfinished(ours, now)) {
    await place.remove(name)
    gone.push(name)
  }
  return gone
}
