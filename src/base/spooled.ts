// Files of the spool are verifiable: their names end with their size and the SHA-256 of their bytes, and the row holds
// the name. So every reader can check whether the file is unchanged. Files of version 0.1.0 are not verifiable, and not
// checked.
import { counted } from './text.ts'
import { closeSync, fstatSync, readFileSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { createHash } from 'node:crypto'
import { basename } from 'node:path'
import { codeOf, DAMAGED } from './errors.ts'
import { jsonOf } from './json.ts'
import { isNoFile, openPlain, openPlainHandle } from './plain-file.ts'

/** The file is missing, another object is in its place, or its bytes have changed since it was written. */
export class Damaged extends Error {
  readonly code = DAMAGED
}

/** Translates an error at a file of the spool: a missing file is damage. Other errors stay unchanged. */
const meaningOf = (thrown: unknown): unknown =>
  isNoFile(thrown) ? new Damaged(`A spool file is missing (${codeOf(thrown)}).`, { cause: thrown }) : thrown

/** Throws Damaged if a file's size differs from that in its name, because it must not be read into memory then. */
function demandSize(path: string, size: number): void {
  const proof = proofOf(path)
  if (proof && proof.octets !== size)
    throw new Damaged(`A spool file has ${counted(size, 'byte')} instead of ${proof.octets}.`)
}

/** The file name made of its own name, its size in bytes and its SHA-256. */
export const provenName = (name: string, octets: number, digest: Buffer): string =>
  `${name}~${octets}-${digest.toString('base64url')}`

/** The size and digest in a file's name, or undefined for a name of version 0.1.0. */
export function proofOf(path: string): { octets: number; digest: string } | undefined {
  const [, octets, digest] = /~(\d+)-([\w-]{43})$/.exec(basename(path)) ?? []
  return octets === undefined || digest === undefined ? undefined : { octets: Number(octets), digest }
}

function openSized(path: string): number {
  let file: number
  try {
    file = openPlain(path)
  } catch (thrown) {
    throw meaningOf(thrown)
  }
  try {
    demandSize(path, fstatSync(file).size)
    return file
  } catch (thrown) {
    closeSync(file)
    throw thrown
  }
}

/** Reads a whole file, of which only the size is checked. Throws as `readProven` does. */
export function readSized(path: string): Buffer {
  const file = openSized(path)
  try {
    return readFileSync(file)
  } finally {
    closeSync(file)
  }
}

/** Opens a file to read it piece by piece. Only its size is checked. Rejects as `readProven` throws. */
export async function openSpooled(path: string): Promise<FileHandle> {
  const handle = await openPlainHandle(path).catch((thrown: unknown) => {
    throw meaningOf(thrown)
  })
  try {
    demandSize(path, (await handle.stat()).size)
    return handle
  } catch (thrown) {
    await handle.close()
    throw thrown
  }
}

/**
 * Reads a whole file. Throws Damaged when there is no such file or its bytes do not match its name, and the system's
 * error when it cannot be read.
 */
export function readProven(path: string): Buffer {
  const bytes = readSized(path)
  const proof = proofOf(path)
  if (proof && createHash('sha256').update(bytes).digest('base64url') !== proof.digest)
    throw new Damaged('A spool file differs from what was written.')
  return bytes
}

/** Whether a value can be the name of a file in the spool. A path that leads elsewhere cannot. */
export const isSpoolName = (name: unknown): name is string =>
  typeof name === 'string' && /^[A-Za-z0-9][\w.~-]{0,199}$/.test(name)

/** The name of a file without its size and digest. */
export const ownName = (name: string): string => name.replace(/~\d+-[\w-]{43}$/, '')

/** The files of a body's `spool` column. If the column is corrupt, only the names that are still readable. */
export function filesOf(spool: string | null): string[] {
  const names = spool === null ? [] : jsonOf(spool)
  return Array.isArray(names) ? names.filter(isSpoolName) : []
}

/** Whether a body's `spool` column is well-formed: a list of files, or null. */
export function isWholeSpool(spool: string | null): boolean {
  if (spool === null) return true
  const names = jsonOf(spool)
  return Array.isArray(names) && names.every(isSpoolName)
}
