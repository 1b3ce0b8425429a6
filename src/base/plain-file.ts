// Opens and reads files whose type is not certain: those of the data directory, and those that a user names. Instead of
// a file there may be a pipe, a socket, a device or a link. Opening a pipe blocks until its other end is opened, a
// device may be endless, and a link may lead to a file of another user. So files are opened without blocking, and only
// a regular file is read. Other types fail with EFTYPE, which counts as a missing file (`isNoFile`). In the data
// directory links are not followed. A file that a user names (`readNamed`) may be a link, and is read up to a limit,
// beyond which it fails with EFBIG.
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

/** The default limit in bytes for a file that a user names: keys, authorities, configurations. */
const MOST_NAMED = 4 * 1024 * 1024
/** The limit in bytes for a small file that Postrider writes into the data directory. */
const MOST_NOTED = 64 * 1024

export interface PlainOptions {
  /** Whether a link is followed, for a file that an operator may keep elsewhere. Its target must be a regular file. */
  links?: boolean
}

/** EFTYPE is the code of other systems' C libraries for a wrong file type. Linux has no such code. */
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

/** Reads a file that a user names, of at most so many bytes. Throws the system's error, EFTYPE and EFBIG. */
export function readNamed(path: string, most = MOST_NAMED): Buffer {
  const file = openPlain(path, { links: true })
  try {
    return readBounded(file, path, most)
  } finally {
    closeSync(file)
  }
}

/**
 * Reads a small file that Postrider wrote into its data directory. A file of any user except root and the owner of the
 * directory is untrusted, and counts as missing. Throws the system's error, EFTYPE and EFBIG.
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

/** Files in /proc report a size of 0, and files grow, so the limit applies to the bytes read. */
function readBounded(file: number, path: string, most: number): Buffer {
  const { size } = fstatSync(file)
  const pieces: Buffer[] = []
  let length = 0
  for (let chunk = Math.min(size, most) + 1; size <= most && length <= most; chunk = PIECE) {
    const piece = Buffer.allocUnsafe(chunk)
    const read = readSync(file, piece, 0, chunk, length)
    if (read === 0) return Buffer.concat(pieces, length)
    pieces.push(piece.subarray(0, read))
    length += read
  }
  const shown = most < 1024 * 1024 ? `${most / 1024} KB` : `${most / 1024 / 1024} MB`
  const message = `EFBIG: larger than ${shown}, read '${path}'`
  throw Object.assign(new Error(message), { code: 'EFBIG', syscall: 'read', path, shown })
}

const PIECE = 64 * 1024

/** Opens a file to append to it, and makes it when it is missing. Throws the system's error, and EFTYPE. */
export const openToAppend = (path: string): number =>
  checked(openSync(path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK, 0o600), path)

/** Writes a complete file that only its owner may read. Throws the system's error, and EFTYPE. */
export function writePlain(path: string, content: string | Uint8Array): void {
  // Without O_TRUNC: the content stays until the type of the file is checked.
  const file = checked(openSync(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600), path)
  try {
    ftruncateSync(file)
    writeFileSync(file, content)
  } finally {
    closeSync(file)
  }
}

/**
 * Replaces or creates a file that only its owner may read. Readers see either the old or the new file, complete.
 * `lasting`: even after a power failure. Throws the system's error, and EFTYPE.
 */
export function replacePlain(path: string, content: string | Uint8Array, { lasting = true } = {}): void {
  const next = `${path}.new`
  writePlain(next, content)
  if (lasting) syncPath(next)
  renameSync(next, path)
  if (lasting) syncPath(dirname(path))
}

/**
 * Writes over the content of a file that exists, durably: it takes no new space on the disk. Throws the system's error,
 * and EFTYPE.
 */
export async function overwritePlain(path: string, content: string): Promise<void> {
  demandFile(await lstat(path), path)
  const handle = await open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    const { bytesWritten } = await handle.write(content, 0)
    await handle.truncate(bytesWritten)
    await handle.datasync()
  } finally {
    await handle.close()
  }
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

/** Whether a call failed because its path is missing or not a regular file. */
export const isNoFile = (thrown: unknown): boolean => NO_FILE.has(codeOf(thrown))
