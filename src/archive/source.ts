// Where a restore or a drill takes its backup from: a file, a directory, or another target.
import { closeSync, fstatSync, readSync, rmSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { whyUnread } from '../base/file-faults.ts'
import { asCallerAt } from '../base/ownership.ts'
import { openPlain, readNamed } from '../base/plain-file.ts'
import { openArchive, type Archive } from './backup-archive.ts'
import { manifestName, MOST_MANIFEST, parseManifest, readName, type Manifest } from './catalog.ts'
import { fetchTo, findBackup, fingerprintIn, tooNew, type FetchWishes } from './fetch.ts'
import { unpackTo } from './pack.ts'
import { isTarget, placeOf } from './place-of.ts'
import type { BackupPlace } from './places/place.ts'
import type { Room } from './room.ts'
import { transferOn, type Transfer } from './transfer.ts'
import { migrations } from '../schema/migrations.ts'
import type { Terminal } from '../commands/terminal.ts'

export interface Source extends AsyncDisposable {
  /** Names the backup in sentences. */
  shown: string
  manifest: Manifest | undefined
  /** Brings the archive into a folder; what it leaves there is part of no restore. */
  open: (room: Room) => Promise<Archive>
}

export interface BackupSourceDeps {
  config: Config
  clock: Clock
  terminal: Terminal
  /** Secret keys of age. */
  identities: readonly string[]
}

/** What a backup is brought as. */
const FETCHED = '.fetched.zip'

/** Opens the file inside the folder, and takes its name away: its space goes with its last reader. */
async function archiveIn({ folder }: Room, shown: string, get: (file: string) => Promise<void>): Promise<Archive> {
  const file = join(folder, FETCHED)
  await get(file)
  const archive = await openArchive(file, shown)
  rmSync(file)
  return archive
}

/** Whether a command was given a target or a directory, and no file. */
export const isPlace = (from: string): boolean =>
  isTarget(from) ||
  (asCallerAt(resolve(from), () => statSync(resolve(from), { throwIfNoEntry: false }))?.isDirectory() ?? false)

/** The place that a command was given. */
export const placeFrom = ({ clock, config }: Pick<BackupSourceDeps, 'clock' | 'config'>, from: string): BackupPlace =>
  placeOf(config, isTarget(from) ? from : resolve(from), clock)

/** Finds the backup that is meant; nothing is fetched yet. Throws an OperatorError. */
export async function sourceOf(deps: BackupSourceDeps, from: string, wishes: FetchWishes): Promise<Source> {
  if (!isPlace(from)) {
    const chosen = wishes.at === undefined ? (wishes.installation === undefined ? undefined : '--installation') : '--at'
    if (chosen !== undefined)
      throw new OperatorError(
        `${chosen} chooses among the backups of a directory or a target, and ${from.slice(0, 200)} is neither; leave it out.`,
      )
    return from === '-' ? inputSource(deps) : fileSource(deps, resolve(from))
  }
  const place = placeFrom(deps, from)
  const find = (): Promise<Manifest> => findBackup(place, fingerprintIn(deps.config.data_dir), wishes, deps.clock.now())
  const manifest = await (isTarget(from) ? find() : asCallerAt(resolve(from), find)).catch(async (thrown: unknown) => {
    await place.close()
    throw thrown
  })
  // A file of a directory is opened as who called, and read as the owner of the data directory.
  if (!isTarget(from)) return fileSource(deps, join(resolve(from), manifest.name))
  return placeSource(deps, place, manifest)
}

export const placeSource = (deps: BackupSourceDeps, place: BackupPlace, manifest: Manifest): Source => ({
  shown: manifest.name,
  manifest,
  open: (room) =>
    archiveIn(room, manifest.name, (file) =>
      fetchTo(file, place, manifest, {
        identities: deps.identities,
        room,
        transfer: transferOn(deps.terminal, deps.clock, manifest.size),
      }),
    ),
  [Symbol.asyncDispose]: () => place.close(),
})

/** Standard input, for a file that the user of this command may not read, or that lies outside of its container. */
function inputSource({ identities }: BackupSourceDeps): Source {
  const shown = 'standard input'
  return {
    shown,
    manifest: undefined,
    open: (room) => archiveIn(room, shown, (target) => unpackTo(target, given(), { shown, identities, room })),
    [Symbol.asyncDispose]: async () => {},
  }
}

async function* given(): AsyncIterable<Uint8Array> {
  let came = false
  if (!process.stdin.isTTY)
    for await (const piece of process.stdin as AsyncIterable<Uint8Array>) {
      came = true
      yield piece
    }
  if (!came)
    throw new OperatorError(
      'Nothing came on standard input: give it the backup, as in "postrider restore - <FILE"; a container takes it with "-i".',
    )
}

/** A file: a zip of `postrider backup FILE`, or an object of a place that was copied here. */
async function fileSource(deps: BackupSourceDeps, file: string): Promise<Source> {
  const handle = opened(file)
  if (readName(basename(file)) === undefined && !isPacked(handle)) {
    closeSync(handle)
    // Before anything is made for it.
    const archive = await openArchive(file)
    return { shown: file, manifest: undefined, open: async () => archive, [Symbol.asyncDispose]: async () => {} }
  }
  const manifest = manifestBeside(file)
  if (manifest && manifest.schema > migrations.length) throw tooNew(file, manifest.schema, manifest.version)
  const octets = (): AsyncIterable<Uint8Array> => octetsOf(handle)
  const transfer = transferOn(deps.terminal, deps.clock, fstatSync(handle).size)
  const { identities } = deps
  return {
    shown: file,
    manifest,
    open: (room) =>
      archiveIn(room, file, (target) =>
        manifest
          ? fetchTo(target, { title: dirname(file), get: octets }, manifest, { identities, room, transfer })
          : unpackTo(target, counted(octets(), transfer), { shown: file, identities, room }),
      ),
    [Symbol.asyncDispose]: async () => closeSync(handle),
  }
}

/** How an object of a place begins: in age's format, or packed by zstd alone. */
const BEGINNINGS = [Buffer.from('age-encryption.org/'), Buffer.from([0x28, 0xb5, 0x2f, 0xfd])]

/** Whether an open file is an object of a place, whatever its name: a command that only stores chose one. */
function isPacked(handle: number): boolean {
  const found = Buffer.alloc(32)
  readSync(handle, found, 0, found.length, 0)
  return BEGINNINGS.some((beginning) => found.subarray(0, beginning.length).equals(beginning))
}

const PIECE = 256 * 1024

/** The octets of an open file, which stays open. */
async function* octetsOf(handle: number): AsyncIterable<Uint8Array> {
  for (let at = 0; ;) {
    const piece = Buffer.allocUnsafe(PIECE)
    const read = readSync(handle, piece, 0, PIECE, at)
    if (read === 0) return
    yield piece.subarray(0, read)
    at += read
  }
}

async function* counted(octets: AsyncIterable<Uint8Array>, transfer: Transfer): AsyncIterable<Uint8Array> {
  for await (const piece of octets) {
    transfer.add(piece.length)
    yield piece
  }
  transfer.end()
}

function opened(file: string): number {
  try {
    return asCallerAt(file, () => openPlain(file, { links: true }))
  } catch (thrown) {
    throw new OperatorError(`${file} cannot be read (${whyUnread(thrown)}); see that it is there and who may read it.`)
  }
}

/** The manifest that lies beside a file; undefined without one. Throws an OperatorError for one that is wrong. */
function manifestBeside(file: string): Manifest | undefined {
  const beside = manifestName(file)
  let text: string | undefined
  try {
    text = asCallerAt(beside, () => readNamed(beside, MOST_MANIFEST).toString())
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return undefined
    throw new OperatorError(`${beside} cannot be read (${whyUnread(thrown)}); use another backup, or move it away.`)
  }
  const manifest = parseManifest(text, basename(file))
  if (manifest) return manifest
  throw new OperatorError(`${beside} does not belong to ${basename(file)}; use another backup, or move it away.`)
}
