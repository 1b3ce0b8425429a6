// Opens and reads files of the data directory whose kind is not certain. Whoever can write there may have put a pipe, a
// socket, a device or a link in the place of a file: to open a pipe waits for its other end for ever, a device may have
// no end, and a link may lead to a file of somebody else. So no link is followed, nothing is waited for, and only a
// regular file is read: everything else fails with EFTYPE, which counts as a missing file (`isNoFile`).
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readFileSync,
  statSync,
  writeFileSync,
  type Stats,
} from 'node:fs'
import { lstat, open, type FileHandle } from 'node:fs/promises'
import { codeOf } from './errors.ts'

const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants
const READ = O_RDONLY | O_NONBLOCK

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
export function readPlain(path: string, options?: PlainOptions): Buffer {
  const file = openPlain(path, options)
  try {
    return readFileSync(file)
  } finally {
    closeSync(file)
  }
}

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
