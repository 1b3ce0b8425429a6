// The errors that are about this machine (D72): its disk, descriptors, memory and threads. Such an error is neither a
// bug nor information about another server.
import { codeOf, refuse, type Refusal } from './errors.ts'
import { namesIn } from './one-of.ts'

/** The parts of this machine that can fail (D72). */
export type LocalTrouble = 'full' | 'disk' | 'descriptors' | 'memory' | 'addresses'

/** The only table of the codes of system errors and of SQLite that are about this machine (D72). */
const OF_THIS_MACHINE: Record<LocalTrouble, string> = {
  full: 'ENOSPC EDQUOT EFBIG SQLITE_FULL',
  disk: 'EIO EROFS EACCES EPERM SQLITE_IOERR SQLITE_CANTOPEN SQLITE_READONLY',
  descriptors: 'EMFILE ENFILE',
  // A thread that cannot be started gives EAGAIN.
  memory: 'ENOMEM ENOBUFS EAGAIN SQLITE_NOMEM',
  addresses: 'EADDRNOTAVAIL',
}
const LOCAL_CODES = new Map(
  namesIn(OF_THIS_MACHINE).flatMap((trouble) =>
    OF_THIS_MACHINE[trouble].split(' ').map((code) => [code, trouble] as const),
  ),
)

/** Returns the part of this machine that failed, or undefined if the error is not about this machine. */
export const localTrouble = (thrown: unknown): LocalTrouble | undefined =>
  // SQLite's extended codes begin with the primary one: SQLITE_IOERR_WRITE.
  LOCAL_CODES.get(codeOf(thrown).replace(/^(SQLITE_[A-Z]+)_.*/, '$1'))

/** A sentence for each local problem, without paths, so that every client may see it. */
export const TROUBLE_SENTENCES: Record<LocalTrouble, string> = {
  full: 'The disk is full.',
  disk: 'The disk cannot be used.',
  descriptors: 'There are no free file descriptors.',
  memory: 'There is not enough memory, or there are too many threads.',
  addresses: 'There are no free local addresses.',
}

/** Whether a connection failed because of this machine: no descriptor, memory, permission or local address. */
export const isLocal = (thrown: unknown): boolean => localTrouble(thrown) !== undefined

/**
 * The refusal for a client if this machine failed: 507 for its disk, 503 for the rest, with a time to retry. Undefined
 * for other errors.
 */
export function refusalOfTrouble(thrown: unknown): Refusal | undefined {
  const trouble = localTrouble(thrown)
  if (!trouble) return undefined
  const ofDisk = trouble === 'full' || trouble === 'disk'
  const what = {
    full: 'The disk of this server is full',
    disk: 'The disk of this server cannot be used at present',
    descriptors: 'This server has too many files and connections open',
    memory: 'This server is short of memory',
    addresses: 'This server has no free local address',
  }[trouble]
  const detail = `${what}; nothing was accepted. Send this again later.`
  return refuse(ofDisk ? 'insufficient_storage' : 'overloaded', detail, undefined, { 'Retry-After': '60' })
}
