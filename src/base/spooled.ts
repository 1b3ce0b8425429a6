// Files of the spool prove themselves: their names end with their size and the SHA-256 of their octets, and the name stands in the row. Whoever
// reads one knows whether it is what was written. Files of version 0.1.0 have names without them and are believed.
import { readFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { basename } from 'node:path'

/** A file is not what was written. */
export class Damaged extends Error {}

/** The name of a file by its own name, its octets and their digest. */
export const provenName = (name: string, octets: number, digest: Buffer): string =>
  `${name}~${octets}-${digest.toString('base64url')}`

/** What a file's name says of its octets; undefined for a name of version 0.1.0. */
export function proofOf(path: string): { octets: number; digest: string } | undefined {
  const [, octets, digest] = /~(\d+)-([\w-]{43})$/.exec(basename(path)) ?? []
  return octets === undefined || digest === undefined ? undefined : { octets: Number(octets), digest }
}

/** Reads a file whole. Throws Damaged when its octets are others than were written, and as the system does. */
export function readProven(path: string): Buffer {
  const bytes = readFileSync(path)
  const proof = proofOf(path)
  if (proof && createHash('sha256').update(bytes).digest('base64url') !== proof.digest)
    throw new Damaged('A file of the spool is not what was written into it.')
  return bytes
}

/** The name of a file without what proves its octets. */
export const ownName = (name: string): string => name.replace(/~\d+-[\w-]{43}$/, '')
