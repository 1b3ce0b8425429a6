// Opens and reads files whose kind is not certain: those of the data directory, and those that a person names. A pipe,
// a socket, a device or a link may be in the place of a file: to open a pipe waits for its other end for ever, a device
// may have no end, and a link may lead to a file of somebody else. So nothing is waited for, and only a regular file is
// read: everything else fails with EFTYPE, which counts as a missing file (`isNoFile`). In the data directory no link
// is followed. A file that a person names (`readNamed`) may be a link, and is read within a bound: EFBIG past it.
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  statSync,
  writeFileSync,
  type Stats,
} from 'node:fs'
import { lstat, open, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { syncPath } from './durable.ts'
import { codeOf } from './errors.ts'

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY } = constants
const READ = O_RDONLY | O_NONBLOCK

/** The most octets of a file that a person names, where nothing else is said: keys, authorities, configurations. */
const MOST_NAMED = 4 * 1024 * 1024
/** The most octets of what this program notes in a small file of the data directory. */
const MOST_NOTED = 64 * 1024

export interface PlainOptions {
  /** A link is followed, for a file that an operator may keep elsewhere; what it leads to must be a regular file. */
  links?: boolean
}

/** The code of the C library of other systems (EFTYPE) for a file of the wrong type; Linux has none. */
const notAFile = (path: string): Error =>
  Object.assign(new Error(`EFTYPE: not a regular file, open '${path}'`), { code: 'EFTYPE', syscall: 'open', path })

/** Throws EFTYPE unless these are the facts of a regular file. */
function demandFile(stats: Stats, path: string): void {
  if (!stats.isFile()) throw notAFile(path)
}

/** Opens a regular file to read it. Throws the system's error, and EFTYPE. */
export function openPlain(path: string, { links = false }: PlainOptions = {}): number {
  // Looked at before it is opened too: to open a device may already do something.
  demandFile(links ? statSync(path) : lstatSync(path), path)
  return checked(openSync(path, links ? READ : READ | O_NOFOLLOW), path)
}

/** The same, asynchronously. */
export async function openPlainHandle(path: string): Promise<FileHandle> {
  demandFile(await lstat(path), path)
  const handle = await open(path, READ | O_NOFOLLOW)
  try {
    demandFile(await handle.stat(), path)
    return handle
  } catch (thrown) {
    await handle.close()
    throw thrown
  }
}

/** Reads a whole regular file. Throws the system's error, and EFTYPE. */
export function readPlain(path: string): Buffer {
  const file = openPlain(path)
  try {
    return readFileSync(file)
  } finally {
    closeSync(file)
  }
}

/** Reads a file that a person names, of at most so many octets. Throws the system's error, EFTYPE and EFBIG. */
export function readNamed(path: string, most = MOST_NAMED): Buffer {
  const file = openPlain(path, { links: true })
  try {
    return readBounded(file, path, most)
  } finally {
    closeSync(file)
  }
}

/**
 * Reads a small file that this program wrote into its data directory. What belongs neither to the owner of the
 * directory nor to root was put there by somebody else, and is none. Throws the system's error, EFTYPE and EFBIG.
 */
export function readNoted(path: string): Buffer {
  const file = openPlain(path)
  try {
    const { uid } = fstatSync(file)
    if (uid !== 0 && uid !== statSync(dirname(path)).uid) throw notAFile(path)
    return readBounded(file, path, MOST_NOTED)
  } finally {
    closeSync(file)
  }
}

/** Files of the system say that they have no octets, and files grow: so what is read is counted. */
function readBounded(file: number, path: string, most: number): Buffer {
  const { size } = fstatSync(file)
  const pieces: Buffer[] = []
  let length = 0
  for (let room = Math.min(size, most) + 1; size <= most && length <= most; room = PIECE) {
    const piece = Buffer.allocUnsafe(room)
    const read = readSync(file, piece, 0, room, length)
    if (read === 0) return Buffer.concat(pieces, length)
    pieces.push(piece.subarray(0, read))
    length += read
  }
  const shown = most < 1024 * 1024 ? `${most / 1024} KB` : `${most / 1024 / 1024} MB`
  const said = `EFBIG: larger than ${shown}, read '${path}'`
  throw Object.assign(new Error(said), { code: 'EFBIG', syscall: 'read', path, shown })
}

const PIECE = 64 * 1024

/** Opens a file to append to it, and makes it when it is missing. Throws the system's error, and EFTYPE. */
export const openToAppend = (path: string): number =>
  checked(openSync(path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK, 0o600), path)

/** Writes a whole file, which only its owner may read. Throws the system's error, and EFTYPE. */
export function writePlain(path: string, content: string): void {
  // Without O_TRUNC: nothing is changed before it is known to be a file.
  const file = checked(openSync(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600), path)
  try {
    ftruncateSync(file)
    writeFileSync(file, content)
  } finally {
    closeSync(file)
  }
}

/**
 * Puts a file in the place of another one, or of none, which only its owner may read: whoever reads it finds one of
 * them whole. `lasting`: after a power cut too. Throws the system's error, and EFTYPE.
 */
export function replacePlain(path: string, content: string, { lasting = true } = {}): void {
  const next = `${path}.new`
  writePlain(next, content)
  if (lasting) syncPath(next)
  renameSync(next, path)
  if (lasting) syncPath(dirname(path))
}

function checked(file: number, path: string): number {
  try {
    demandFile(fstatSync(file), path)
    return file
  } catch (thrown) {
    closeSync(file)
    throw thrown
  }
}

const NO_FILE = new Set(['ENOENT', 'ENOTDIR', 'EISDIR', 'EFTYPE', 'ELOOP', 'ENXIO'])

/** Whether a call failed because there is no regular file at its path: none at all, or something else. */
export const isNoFile = (thrown: unknown): boolean => NO_FILE.has(codeOf(thrown))
