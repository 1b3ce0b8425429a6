// Files of the spool carry a proof: their names end with their size and the SHA-256 of their octets, and the row holds
// the name. So every reader can tell whether the file is unchanged. Files of version 0.1.0 have no proof and are not
// checked.
import { readFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { basename } from 'node:path'
import { jsonOf } from './json.ts'

/** The file's octets have changed since it was written. */
export class Damaged extends Error {}

/** The file name made of its own name, its size in octets and its SHA-256. */
export const provenName = (name: string, octets: number, digest: Buffer): string =>
  `${name}~${octets}-${digest.toString('base64url')}`

/** The size and digest in a file's name; undefined for a name of version 0.1.0. */
export function proofOf(path: string): { octets: number; digest: string } | undefined {
  const [, octets, digest] = /~(\d+)-([\w-]{43})$/.exec(basename(path)) ?? []
  return octets === undefined || digest === undefined ? undefined : { octets: Number(octets), digest }
}

/**
 * Reads a whole file.
 * Throws Damaged when its octets do not match its name, and the system's error when it cannot be read.
 */
export function readProven(path: string): Buffer {
  const bytes = readFileSync(path)
  const proof = proofOf(path)
  if (proof && createHash('sha256').update(bytes).digest('base64url') !== proof.digest)
    throw new Damaged('A file of the spool is not what was written into it.')
  return bytes
}

/** Whether a value can be the name of a file in the spool. A path that leads elsewhere cannot. */
export const isSpoolName = (name: unknown): name is string =>
  typeof name === 'string' && /^[A-Za-z0-9][\w.~-]{0,199}$/.test(name)

/** The name of a file without its size and digest. */
export const ownName = (name: string): string => name.replace(/~\d+-[\w-]{43}$/, '')

/** The files of a body's `spool` column; if the column is damaged, only the names that are still readable. */
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
