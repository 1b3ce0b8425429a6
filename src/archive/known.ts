// Which spool files and database pages this machine has sent to a destination. The data directory contains this, so
// that a backup sends only new data. If it is missing or corrupt, the next backup sends everything.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { z } from 'zod'
import { DAY, HOUR } from '../base/clock.ts'
import { makeDirectory } from '../base/durable.ts'
import { jsonOf } from '../base/json.ts'
import { readPlain, replacePlain } from '../base/plain-file.ts'
import { REUSED_FOR } from '../checks/backups.ts'
import { objectOf, readName } from './catalog.ts'
import { rootOf } from './pages.ts'

const FOLDER = 'backup-state'

/** A daily backup never depends on the database of an older one. */
const WHOLE_FOR = DAY - HOUR
/** Bytes of spool files in one object, unless one file is larger. A failed upload is resumed at the next object. */
export const MOST_PACKED = 128 * 1024 ** 2
/** Smaller objects are combined if there are more than this. Each costs a restore a request. */
const SMALL = 16 * 1024 ** 2
const MOST_SMALL = 200

const knownOf = z.object({
  /** The keys that the objects are encrypted to. */
  recipients: z.array(z.string()),
  /** When shared objects were last deleted, in ms. */
  cleared: z.number().default(0),
  /** The last whole database. */
  whole: z
    .object({
      object: objectOf,
      /** The time of its snapshot (ms). */
      at: z.number(),
      /** Bytes of the backups since then that depend on it. */
      sent: z.number(),
      root: z.string(),
    })
    .optional(),
  /** Objects with spool files, and the names of these files. */
  packs: z.array(z.object({ object: objectOf, files: z.array(z.string()) })),
})

export type KnownObjects = z.output<typeof knownOf> & {
  /** The page digests of the whole database. */
  digests?: Buffer
}

const pathOf = (dataDir: string, target: string, end: string): string =>
  join(dataDir, FOLDER, `${createHash('sha256').update(target).digest('hex').slice(0, 16)}.${end}`)

/** Returns what a destination has that is encrypted to these keys. */
export function readKnown(dataDir: string, target: string, recipients: readonly string[]): KnownObjects {
  const nothing: KnownObjects = { recipients: [...recipients], cleared: 0, packs: [] }
  try {
    const known = knownOf.parse(jsonOf(readPlain(pathOf(dataDir, target, 'json')).toString()))
    if (known.recipients.join() !== recipients.join()) return nothing
    const digests = known.whole && readPlain(pathOf(dataDir, target, 'pages'))
    if (!digests || rootOf(digests) !== known.whole?.root) return { ...known, whole: undefined }
    return { ...known, digests }
  } catch {
    return nothing
  }
}

/** Stores it, durably. `pages`: with the digests, after a whole database. Throws the system's error. */
export function keepKnown(dataDir: string, target: string, { digests, ...known }: KnownObjects, pages = false): void {
  makeDirectory(join(dataDir, FOLDER))
  if (pages && digests) replacePlain(pathOf(dataDir, target, 'pages'), digests)
  replacePlain(pathOf(dataDir, target, 'json'), JSON.stringify(known))
}

/** Whether the next backup contains the whole database. */
export const isWholeDue = ({ whole }: KnownObjects, now: number): boolean =>
  whole === undefined || whole.at > now || now - whole.at >= WHOLE_FOR || whole.sent >= whole.object.size

/**
 * Returns the objects that a backup can use again. `objects`: the sizes of those at the destination, `spool`: the files
 * of the backup.
 */
export function usable(
  known: KnownObjects,
  objects: ReadonlyMap<string, number>,
  spool: ReadonlySet<string>,
  now: number,
): KnownObjects {
  const isThere = ({ object }: { object: { name: string; size: number } }): boolean =>
    objects.get(object.name) === object.size
  const isYoung = (name: string): boolean => now - (readName(name)?.at ?? 0) < REUSED_FOR
  const packs = known.packs.filter(
    (pack) =>
      isThere(pack) &&
      pack.files.some((file) => spool.has(file)) &&
      // An erased person must not stay in an object because of its other files.
      (isYoung(pack.object.name) || pack.files.every((file) => spool.has(file))),
  )
  const large = packs.filter(({ object }) => object.plain >= SMALL)
  return {
    ...known,
    whole: known.whole && isThere(known.whole) ? known.whole : undefined,
    packs: packs.length - large.length > MOST_SMALL ? large : packs,
  }
}
