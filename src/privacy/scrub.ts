// Erases an address from every store of an account (D56): rows, bodies, files, payloads, the log, and the places where
// SQLite keeps deleted data. Afterwards run.ts searches the data directory for the address, and logs a warning for each
// file that still holds it.
import { createReadStream, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { isNoFile, openPlain, readPlain } from '../base/plain-file.ts'
import { erasedForm } from '../base/recipient-hash.ts'
import type { Keyring } from '../base/keyring.ts'
import { forgetContacts, forgetSenders } from '../campaigns/forget.ts'
import { forgetInInbound, forgetInOldInboxes, unreadNames } from '../inbound/forget.ts'
import { forgetInBodies, forgetInMails, underWay, type Forgotten } from '../mail/forget.ts'
import { forgetInAgents } from '../reputation/forget.ts'
import { forgetInSuppressions } from '../suppressions/forget.ts'
import type { Store } from '../store/database.ts'
import { betrays, markingSteps, markOf, type Erasing, type ErasingStep } from '../store/erasing.ts'
import { isBeingCopied } from '../store/leavings.ts'
import { removeCopies } from '../store/way-back.ts'
import { QUARANTINE, type Spool } from '../store/spool.ts'
import { forgetInPushed } from '../webhooks/forget.ts'

export interface ScrubDeps {
  store: Store
  spool: Spool
  keyring: Keyring
  config: { data_dir: string }
}

const CHUNK = 256 * 1024
/** Octets of the database that are searched at a time; the whole database is in memory then. */
const SLICE = 4 * 1024 * 1024
/** Longer than any form of an address. */
const OVERLAP = 2048
/** A larger database is not searched, because it would have to fit in memory; SQLite overwrites deleted data anyway. */
const LOOKED_THROUGH = 256 * 1024 * 1024
/** A database up to this size can be rewritten without a long delay for other work. */
const REBUILT_AT_A_GUESS = 16 * 1024 * 1024

export function erasingOf(keyring: Keyring, userKey: number, address: string, at: number): Erasing {
  const hash = erasedForm(keyring, address)
  return { userKey, address, hash, mark: markOf(hash), at }
}

export interface Scrubbed {
  /** A mail or message that names the address is under way now; the erasure must run again when this has ended. */
  busy: boolean
  /** The rows are erased; only the octets wait, until no other process reads or has an older state of the database. */
  held?: true
  /** The files that still hold the address. */
  left: string[]
}

// Steps of an owner come first: a sender that is still needed must not become a mark.
const STEPS: readonly ErasingStep[] = [forgetSenders, forgetInOldInboxes, forgetInPushed, ...markingSteps]

/** Erases the address, some rows in each transaction, so that other writes are not delayed. */
export async function scrub(deps: ScrubDeps, erasing: Erasing): Promise<Scrubbed> {
  const { spool, store } = deps
  const read = (file: string): Uint8Array => octetsAt(spool.path(file))
  // Suppressions and contacts come first, so that a running campaign queues no more mail to the address.
  await store.write((tx) => {
    forgetInSuppressions(tx, erasing)
    forgetContacts(tx, erasing)
  })
  // An unparsed message has no rows to search; it may get them before this run ends.
  let busy = unreadNames(store, erasing, read)
  for (const walk of [forgetInMails, forgetInBodies, forgetInInbound])
    for (let at: number | null = 0; at !== null;) {
      const from: number = at
      const { files, left, next } = await store.writeSoon((tx): Forgotten => walk(tx, erasing, from, read))
      await Promise.all(files.map((file) => spool.remove(file)))
      busy ||= left === true
      at = next
    }
  await store.write((tx) => forgetInAgents(tx, erasing))
  for (const step of STEPS)
    for (let at: number | null = 0; at !== null;) {
      const from: number = at
      at = await store.writeSoon((tx) => step(tx, erasing, from))
    }
  if (busy || underWay(store, erasing) || unreadNames(store, erasing, read)) return { busy: true, left: [] }
  // An earlier try may have removed rows but not their files.
  await spool.removeLeft()
  return forgetRemains(deps, erasing)
}

/** The octets of a file; none where there is no file. */
function octetsAt(path: string): Uint8Array {
  try {
    return readPlain(path)
  } catch (thrown) {
    if (isNoFile(thrown)) return new Uint8Array()
    throw thrown
  }
}

/**
 * Removes deleted data from SQLite's log and free space:
 * by a checkpoint, and if that is not enough by rewriting the file.
 */
export async function forgetRemains({ config, store }: ScrubDeps, { address }: Erasing): Promise<Scrubbed> {
  // Copies of the database from before an upgrade still hold the address.
  removeCopies(config.data_dir)
  // Another process that reads now keeps the log from being emptied; one that makes a backup has all of it.
  if (isBeingCopied(config.data_dir) || !store.checkpoint()) return { busy: true, held: true, left: [] }
  const size = statSync(join(config.data_dir, 'postrider.db')).size
  const says = async (loose: boolean): Promise<boolean> =>
    size <= LOOKED_THROUGH && (await octetsHold(store, store.octets(), address, loose))
  // `loose` also matches inside longer text, such as another column's octets:
  // for a small database a needless rewrite costs little.
  if ((await says(size <= REBUILT_AT_A_GUESS)) && !store.rebuild()) return { busy: true, held: true, left: [] }
  const left = await filesWith(config.data_dir, address, OPENED)
  return { busy: false, left: (await says(false)) ? [...left, 'postrider.db'] : left }
}

/** Searches in slices, so that other work can run between them. */
async function octetsHold(store: Store, octets: Uint8Array, address: string, loose: boolean): Promise<boolean> {
  for (let at = 0; at < octets.length; at += SLICE) {
    if (betrays(octets.subarray(at, at + SLICE + OVERLAP), address, loose)) return true
    await store.writeSoon(() => {})
  }
  return false
}

/**
 * Files that SQLite has open in this process. They must not be opened a second time: closing any descriptor of a file
 * drops all locks that the process has on it (fcntl, POSIX), and another process could then delete the log under the
 * server.
 */
const OPENED = /^(?:postrider\.db(?:-wal|-shm)?|serve\.lock.*)$/

/** The files of the data directory that hold the address, in plain text, base64 or quoted-printable. */
async function filesWith(dataDir: string, address: string, but: RegExp): Promise<string[]> {
  const found: string[] = []
  for (const name of readdirSync(dataDir, { recursive: true }) as string[]) {
    const path = join(dataDir, name)
    if (but.test(name)) continue
    if (!(await fileHolds(path, address))) continue
    // No row names a file in quarantine, so it can be deleted.
    if (name.startsWith(join('spool', QUARANTINE))) rmSync(path, { force: true })
    else found.push(name)
  }
  return found
}

/** Whether a file holds the address in any of those forms. */
export async function fileHolds(path: string, address: string): Promise<boolean> {
  let tail = Buffer.alloc(0)
  try {
    const fd = openPlain(path, { links: true })
    for await (const chunk of createReadStream('', { fd, highWaterMark: CHUNK }) as AsyncIterable<Buffer>) {
      const bytes = Buffer.concat([tail, chunk])
      if (betrays(bytes, address)) return true
      tail = bytes.subarray(-OVERLAP)
    }
  } catch (thrown) {
    // The file was deleted meanwhile. An unreadable file may hold the address: then the erasure is not done.
    if (!isNoFile(thrown)) throw thrown
  }
  return false
}
