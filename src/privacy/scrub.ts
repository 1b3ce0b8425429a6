// Erases an address from every store of an account (D56): rows, bodies, files, payloads, the log, and then the places where SQLite keeps
// what is no longer there. It is done when no octet of the data directory says the address.
import { createReadStream, existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../base/errors.ts'
import { erasedForm } from '../base/recipient-hash.ts'
import type { Keyring } from '../base/keyring.ts'
import { forgetInNotices, forgetInTokens } from '../accounts/forget.ts'
import {
  forgetContacts,
  forgetInAudiences,
  forgetInCampaigns,
  forgetInContacts,
  forgetSenders,
} from '../campaigns/forget.ts'
import { forgetInRecords } from '../domains/forget.ts'
import { forgetInInbound, forgetInInboxes, forgetInOldInboxes, unreadNames } from '../inbound/forget.ts'
import {
  forgetInAgents,
  forgetInBodies,
  forgetInMails,
  forgetInSuppressions,
  underWay,
  type Forgotten,
} from '../outbound/forget.ts'
import type { Store } from '../store/database.ts'
import { betrays, markOf, type Erasing, type Step } from '../store/erasing.ts'
import { forgetInEvents } from '../store/forget-events.ts'
import { removeCopies } from '../store/open.ts'
import { QUARANTINE, type Spool } from '../store/spool.ts'
import { forgetInAttempts, forgetInPushed, forgetInWebhooks } from '../webhooks/forget.ts'

export interface ScrubDesk {
  store: Store
  spool: Spool
  keyring: Keyring
  config: { data_dir: string }
}

const CHUNK = 256 * 1024
/** Of the database, which lies in memory. */
const SLICE = 4 * 1024 * 1024
/** More than any form of an address. */
const OVERLAP = 2048
/** A larger database is not looked through again, which needs it in memory: that SQLite overwrites what it deletes has to be enough. */
const LOOKED_THROUGH = 256 * 1024 * 1024
/** Writing so much anew holds up nobody for long. */
const REBUILT_AT_A_GUESS = 16 * 1024 * 1024

export function erasingOf(keyring: Keyring, userKey: number, address: string, at: number): Erasing {
  const hash = erasedForm(keyring, address)
  return { userKey, address, hash, mark: markOf(hash), at }
}

export interface Scrubbed {
  /** Something that names the address is on its way this moment; it must be erased once more when that has ended. */
  busy: boolean
  /** The files that still say the address. */
  left: string[]
}

const STEPS: readonly Step[] = [
  forgetInContacts,
  forgetInAudiences,
  forgetSenders,
  forgetInCampaigns,
  forgetInInboxes,
  forgetInOldInboxes,
  forgetInTokens,
  forgetInRecords,
  forgetInWebhooks,
  forgetInPushed,
  forgetInAttempts,
  forgetInNotices,
  forgetInEvents,
]

/** Erases; some rows in each transaction, so that it holds up nobody. */
export async function scrub(desk: ScrubDesk, erasing: Erasing): Promise<Scrubbed> {
  const { spool, store } = desk
  const read = (file: string): Uint8Array =>
    existsSync(spool.path(file)) ? readFileSync(spool.path(file)) : new Uint8Array()
  // Contacts first: a campaign under way finds nobody to write to any more.
  await store.write((tx) => {
    forgetInSuppressions(tx, erasing)
    forgetContacts(tx, erasing)
  })
  // What is not read yet has no rows to be found by; it may have them before this has come to its end.
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
  return forgetRemains(desk, erasing)
}

/** What SQLite left in its log and in free space goes as well: by a checkpoint, and where that is not enough by writing the file anew. */
async function forgetRemains({ config, store }: ScrubDesk, { address }: Erasing): Promise<Scrubbed> {
  // The database as it was before an upgrade says what it said then.
  removeCopies(config.data_dir)
  // A command that reads this moment keeps the log from being emptied.
  if (!store.checkpoint()) return { busy: true, left: [] }
  const size = statSync(join(config.data_dir, 'postrider.db')).size
  const says = async (loose: boolean): Promise<boolean> =>
    size <= LOOKED_THROUGH && (await octetsHold(store, store.octets(), address, loose))
  // As part of something longer it may be a neighbour's, or stand beside another column's octets: to be sure costs a small database little.
  if (await says(size <= REBUILT_AT_A_GUESS)) store.rebuild()
  const left = await filesWith(config.data_dir, address, OPENED)
  return { busy: false, left: (await says(false)) ? [...left, 'postrider.db'] : left }
}

/** Looks a little at a time, so that others have their turn. */
async function octetsHold(store: Store, octets: Uint8Array, address: string, loose: boolean): Promise<boolean> {
  for (let at = 0; at < octets.length; at += SLICE) {
    if (betrays(octets.subarray(at, at + SLICE + OVERLAP), address, loose)) return true
    await store.writeSoon(() => {})
  }
  return false
}

/**
 * Files that SQLite has open in this process. They must not be opened beside it: closing any descriptor of a file gives up all locks
 * that the process has on it (fcntl, POSIX), and another process would take the log away under the server.
 */
const OPENED = /^(?:postrider\.db(?:-wal|-shm)?|serve\.lock.*)$/

/** The files of the data directory that hold the address, in plain text or as base64 or quoted-printable have it. */
async function filesWith(dataDir: string, address: string, but: RegExp): Promise<string[]> {
  const found: string[] = []
  for (const name of readdirSync(dataDir, { recursive: true }) as string[]) {
    const path = join(dataDir, name)
    if (but.test(name) || !statSync(path, { throwIfNoEntry: false })?.isFile()) continue
    if (!(await fileHolds(path, address))) continue
    // Nobody names what lies in quarantine.
    if (name.startsWith(join('spool', QUARANTINE))) rmSync(path, { force: true })
    else found.push(name)
  }
  return found
}

/** Whether a file says the address in any of those forms. */
export async function fileHolds(path: string, address: string): Promise<boolean> {
  let tail = Buffer.alloc(0)
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: CHUNK }) as AsyncIterable<Buffer>) {
      const bytes = Buffer.concat([tail, chunk])
      if (betrays(bytes, address)) return true
      tail = bytes.subarray(-OVERLAP)
    }
  } catch (thrown) {
    // Gone while it was looked at. What cannot be read may hold the address: the erasure is not done then.
    if (codeOf(thrown) !== 'ENOENT') throw thrown
  }
  return false
}
