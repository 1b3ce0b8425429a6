// The places that keep backups: a directory, a bucket of S3, a folder on a server by SFTP or WebDAV, a command. All of
// them stand behind one interface. An object is there whole or not at all; every failure is a PlaceFault, one sentence
// with what fixes it.
import { createHash } from 'node:crypto'
import { DAY, SECOND, type Clock } from '../../base/clock.ts'
import { isPart, OBJECT_NAME, type Backend, type BackupObject, type PlaceDeps } from './backend.ts'
import { backendOf, type TargetOptions } from './targets.ts'

export interface BackupPlace {
  /** The target as it is configured, without secrets. */
  readonly title: string
  /** Whether only `put` works: a command without "{action}", which lists, keeps and removes by itself. */
  readonly writesOnly: boolean
  /**
   * Stores the whole stream under this name, in place of what has the name. It is durable when this returns; when it
   * throws, also because the stream did, nothing new is to be seen.
   */
  put(name: string, octets: AsyncIterable<Uint8Array>): Promise<{ size: number; sha256: string }>
  /** What lies there under names that `put` takes, in any order; others' files may be among it. */
  list(): AsyncIterable<BackupObject>
  head(name: string): Promise<BackupObject | undefined>
  /** The octets from this one on. */
  get(name: string, from?: number): AsyncIterable<Uint8Array>
  /** Removes an object; none is none. */
  remove(name: string): Promise<void>
  close(): Promise<void>
}

export interface PlaceOptions extends TargetOptions {
  /** The most octets that are sent or fetched in a second; 0 or absent: no limit. */
  bandwidth?: number | undefined
}

/** Opens a target of "backup.to"; nothing is asked of it yet. Throws an OperatorError for one that is wrong. */
export function openPlace(target: string, options: PlaceOptions, deps: PlaceDeps): BackupPlace {
  return placeOver(backendOf(target, options, deps), options, deps)
}

/** How many unfinished parts are removed at a time. */
const MOST_STALE = 100

function placeOver(backend: Backend, { bandwidth }: PlaceOptions, { clock }: PlaceDeps): BackupPlace {
  const checked = (name: string): string => {
    if (!OBJECT_NAME.test(name)) throw new Error(`"${name}" is not the name of a backup.`)
    return name
  }
  const removeStale = async (): Promise<void> => {
    const stale: string[] = []
    for await (const { at, name } of backend.entries())
      if (isPart(name) && at !== undefined && at < clock.now() - DAY && stale.length < MOST_STALE) stale.push(name)
    for (const name of stale) await backend.remove(name)
  }
  return {
    title: backend.title,
    writesOnly: backend.writesOnly === true,
    async put(name, octets) {
      checked(name)
      // Uploads that a kill ended left their parts.
      if (backend.leavesParts) await removeStale()
      const hash = createHash('sha256')
      let size = 0
      const counted = async function* (): AsyncIterable<Uint8Array> {
        for await (const piece of paced(octets, bandwidth, clock)) {
          hash.update(piece)
          size += piece.length
          yield piece
        }
      }
      await backend.put(name, counted())
      return { size, sha256: hash.digest('hex') }
    },
    async *list() {
      for await (const found of backend.entries()) if (OBJECT_NAME.test(found.name)) yield found
    },
    head: async (name) => backend.head(checked(name)),
    get: (name, from = 0) => paced(backend.get(checked(name), from), bandwidth, clock),
    remove: async (name) => backend.remove(checked(name)),
    close: () => backend.close(),
  }
}

/** A stream that gives at most so many octets in a second, over a piece and what follows it. */
async function* paced(
  octets: AsyncIterable<Uint8Array>,
  bandwidth: number | undefined,
  clock: Clock,
): AsyncIterable<Uint8Array> {
  if (!bandwidth) return yield* octets
  // By the time that passed, not by the date: that can be set back.
  let free = clock.elapsed()
  for await (const piece of octets) {
    const wait = free - clock.elapsed()
    if (wait > 0) await new Promise<void>((done) => clock.wake(clock.now() + wait, done))
    free = Math.max(free, clock.elapsed()) + (piece.length / bandwidth) * SECOND
    yield piece
  }
}
