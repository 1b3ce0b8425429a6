// The source of a restore or a restore test: a file, standard input, or a destination. Fetched bytes are compared with
// the manifest.
import { createHash } from 'node:crypto'
import { closeSync, fstatSync, existsSync, readSync, rmSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { whyUnread } from '../base/file-faults.ts'
import { bufferCollector } from '../base/native.ts'
import { openPlain, readNamed } from '../base/plain-file.ts'
import { counted } from '../base/text.ts'
import { openArchive, type Archive } from './backup-archive.ts'
import {
  findBackup,
  fingerprintIn,
  manifestName,
  MOST_MANIFEST,
  parseManifest,
  readName,
  tooNew,
  type Manifest,
  type BackupSelection,
  type SentObject,
} from './catalog.ts'
import { unpackTo } from './pack.ts'
import { destinationOf, isTarget, type Destination } from './destinations/destination.ts'
import { DestinationFault } from './destinations/fault.ts'
import { transferOn, type Transfer } from './transfer.ts'
import type { UnpackSpace } from './unpack-space.ts'
import { migrations } from '../store/schema/migrations.ts'
import type { Terminal } from '../views/command/terminal.ts'

export interface Source extends AsyncDisposable {
  /** The name of the backup in messages. */
  shown: string
  manifest: Manifest | undefined
  /**
   * Fetches the backup's own object into a folder, or the shared object of this name. Its file there is not part of the
   * restored data.
   */
  open: (space: UnpackSpace, name?: string) => Promise<Archive>
}

export interface RestoreDeps {
  config: Config
  clock: Clock
  terminal: Terminal
  /** age secret keys. */
  identities: readonly string[]
}

/** The file name of a fetched backup. */
const FETCHED = '.fetched.zip'

/** Opens the file in the folder, and unlinks it: its space is freed when it is closed. */
async function archiveIn(
  { folder }: UnpackSpace,
  shown: string,
  get: (file: string) => Promise<void>,
): Promise<Archive> {
  const file = join(folder, FETCHED)
  try {
    await get(file)
    return await openArchive(file, shown)
  } finally {
    rmSync(file, { force: true })
  }
}

/** Whether an argument is a destination: a target or a directory. */
export const isDestination = (from: string): boolean =>
  isTarget(from) || (existsSync(resolve(from)) && statSync(resolve(from)).isDirectory())

export const destinationFrom = ({ clock, config }: Pick<RestoreDeps, 'clock' | 'config'>, from: string): Destination =>
  destinationOf(config, isTarget(from) ? from : resolve(from), clock)

/** Selects a backup, without fetching it. Throws an OperatorError. */
export async function sourceOf(deps: RestoreDeps, from: string, selection: BackupSelection): Promise<Source> {
  if (!isDestination(from)) {
    const chosen =
      selection.at === undefined ? (selection.installation === undefined ? undefined : '--installation') : '--at'
    if (chosen !== undefined)
      throw new OperatorError(
        `${chosen} needs a directory or destination, but ${from.slice(0, 200)} is a file; remove the option.`,
      )
    return from === '-' ? inputSource(deps) : fileSource(deps, resolve(from))
  }
  const destination = destinationFrom(deps, from)
  const here = fingerprintIn(deps.config.data_dir)
  const skipped = (name: string): void =>
    deps.terminal.err(
      `postrider: ${name} is newer, but its manifest or its own object is missing at ${destination.title}, so an older backup is used.\n`,
    )
  const manifest = await findBackup(destination, here, selection, deps.clock.now(), skipped).catch(
    async (thrown: unknown) => {
      await destination.close()
      throw thrown
    },
  )
  if (!isTarget(from)) return fileSource(deps, join(resolve(from), manifest.name))
  return sourceAt(deps, destination, manifest)
}

export const sourceAt = (deps: RestoreDeps, destination: Destination, manifest: Manifest): Source => ({
  shown: manifest.name,
  manifest,
  open: openerOf(deps, destination, manifest),
  [Symbol.asyncDispose]: () => destination.close(),
})

/** Fetches objects. Compares them with the manifest if there is one. Without it, the name of an object is needed. */
function openerOf(deps: RestoreDeps, destination: ReadOnly, manifest: Manifest | undefined): Source['open'] {
  const { clock, identities, terminal } = deps
  return (space, name = manifest?.name ?? '') => {
    const object = manifest && [manifest, ...manifest.objects].find((each) => each.name === name)
    if (manifest && !object)
      throw new OperatorError(`The manifest of ${manifest.name} does not list ${name}; use another backup.`)
    return archiveIn(space, name, (file) =>
      object
        ? fetchTo(
            file,
            destination,
            { ...object, recipients: manifest.recipients },
            {
              identities,
              space,
              transfer: transferOn(terminal, clock, object.size),
            },
          )
        : unpackTo(file, destination.get(name), { shown: name, identities, space }),
    )
  }
}

/** Standard input, for a file that this user cannot read, or that is outside of the container. */
function inputSource({ identities }: RestoreDeps): Source {
  const shown = 'standard input'
  return {
    shown,
    manifest: undefined,
    open: async (space, name) => {
      if (name === undefined)
        return archiveIn(space, shown, (target) => unpackTo(target, given(), { shown, identities, space }))
      throw new OperatorError(`The backup also needs ${name}; restore from the directory with all of its objects.`)
    },
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
      'Standard input is empty; pipe the backup into it, as in "postrider restore - <FILE" (in a container, with "-i").',
    )
}

/** A file: the zip of `postrider backup FILE`, or a backup's own object with its other objects in the same folder. */
async function fileSource(deps: RestoreDeps, file: string): Promise<Source> {
  const known = readName(basename(file))
  if (known?.shared)
    throw new OperatorError(
      `${file} is only a part of backups; use a file next to it without ".db-" and ".files-" in its name.`,
    )
  const handle = opened(file)
  const shown = file
  const manifest = manifestBeside(file)
  if (manifest && manifest.schema > migrations.length) throw tooNew(file, manifest.schema, manifest.version)
  if (manifest) return handlesSource(deps, shown, manifest, handle)
  const others = openerOf(deps, destinationFrom(deps, dirname(file)), undefined)
  if (known === undefined && !isObject(handle)) {
    closeSync(handle)
    const archive = await openArchive(file)
    const open: Source['open'] = async (space, name) => (name === undefined ? archive : others(space, name))
    return { shown, manifest, open, [Symbol.asyncDispose]: async () => {} }
  }
  const { clock, identities, terminal } = deps
  const bytes = tracked(bytesOf(handle), transferOn(terminal, clock, fstatSync(handle).size))
  return {
    shown,
    manifest,
    open: (space, name) =>
      name === undefined
        ? archiveIn(space, file, (target) => unpackTo(target, bytes, { shown, identities, space }))
        : others(space, name),
    [Symbol.asyncDispose]: async () => closeSync(handle),
  }
}

/** All objects are opened now, because a command of root changes its user before it reads them. */
function handlesSource(deps: RestoreDeps, file: string, manifest: Manifest, own: number): Source {
  const handles = new Map([[manifest.name, own]])
  for (const { name } of manifest.objects)
    if (existsSync(join(dirname(file), name))) handles.set(name, opened(join(dirname(file), name)))
  const title = dirname(file)
  const get = (name: string): AsyncIterable<Uint8Array> => {
    const handle = handles.get(name)
    if (handle === undefined) throw new DestinationFault('missing', title, `${name} does not exist`)
    return bytesOf(handle)
  }
  return {
    shown: file,
    manifest,
    open: openerOf(deps, { title, get }, manifest),
    [Symbol.asyncDispose]: async () => handles.forEach((handle) => closeSync(handle)),
  }
}

/** The first bytes of an object at a destination: age, or zstd if it is not encrypted. */
const STARTS = [Buffer.from('age-encryption.org/'), Buffer.from([0x28, 0xb5, 0x2f, 0xfd])]

/** Whether an open file is an object of a destination under another name. */
function isObject(handle: number): boolean {
  const found = Buffer.alloc(32)
  readSync(handle, found, 0, found.length, 0)
  return STARTS.some((start) => found.subarray(0, start.length).equals(start))
}

const PIECE = 256 * 1024

/** The bytes of an open file, which stays open, unlike with a stream of Node. */
async function* bytesOf(handle: number): AsyncIterable<Uint8Array> {
  for (let at = 0; ;) {
    const piece = Buffer.allocUnsafe(PIECE)
    const read = readSync(handle, piece, 0, PIECE, at)
    if (read === 0) return
    yield piece.subarray(0, read)
    at += read
  }
}

async function* tracked(bytes: AsyncIterable<Uint8Array>, transfer: Transfer): AsyncIterable<Uint8Array> {
  for await (const piece of bytes) {
    transfer.add(piece.length)
    yield piece
  }
  transfer.end()
}

function opened(file: string): number {
  try {
    return openPlain(file, { links: true })
  } catch (thrown) {
    throw new OperatorError(
      `${file} cannot be read (${whyUnread(thrown)}); check its path and permissions, or pass it to standard input ("-").`,
    )
  }
}

/** The manifest next to a file, or undefined. Throws an OperatorError if it belongs to another file. */
function manifestBeside(file: string): Manifest | undefined {
  const beside = manifestName(file)
  let text: string | undefined
  try {
    text = readNamed(beside, MOST_MANIFEST).toString()
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return undefined
    throw new OperatorError(
      `${beside} cannot be read (${whyUnread(thrown)}); use another backup, or move that file away.`,
    )
  }
  const manifest = parseManifest(text, basename(file))
  if (manifest) return manifest
  throw new OperatorError(`${beside} does not belong to ${basename(file)}; use another backup, or move that file away.`)
}

interface Fetching {
  identities: readonly string[]
  space: UnpackSpace
  transfer: Transfer
}

/** The part of a destination that a backup is read from. */
type ReadOnly = Pick<Destination, 'title' | 'get'>

/** The bytes of a stored object. Throws an OperatorError at their end if they differ from the manifest. */
async function* verifiedBytes(
  destination: ReadOnly,
  { name, sha256, size }: SentObject,
  transfer: Transfer,
): AsyncIterable<Uint8Array> {
  const hash = createHash('sha256')
  const collect = bufferCollector()
  let seen = 0
  for await (const piece of destination.get(name)) {
    hash.update(piece)
    collect(piece.length)
    seen += piece.length
    transfer.add(piece.length)
    yield piece
  }
  if (seen !== size)
    throw new OperatorError(
      `${destination.title}: ${name} has ${counted(seen, 'byte')} instead of the ${size} in its manifest; use another backup.`,
    )
  if (hash.digest('hex') !== sha256)
    throw new OperatorError(`${destination.title}: ${name} was modified after it was written; use another backup.`)
}

/** Fetches an object into a new zip file. */
async function fetchTo(
  file: string,
  destination: ReadOnly,
  object: SentObject & Pick<Manifest, 'recipients'>,
  fetching: Fetching,
): Promise<void> {
  const { identities, space, transfer } = fetching
  try {
    await unpackTo(file, verifiedBytes(destination, object, transfer), {
      shown: object.name,
      identities,
      space,
      manifest: object,
    })
  } finally {
    transfer.end()
  }
}

/** Reads a backup without decrypting it. Throws an OperatorError if an object was modified. */
export async function verifyBytes(destination: ReadOnly, manifest: Manifest, transfer: Transfer): Promise<void> {
  for (const object of [manifest, ...manifest.objects])
    for await (const _ of verifiedBytes(destination, object, transfer));
  transfer.end()
}
