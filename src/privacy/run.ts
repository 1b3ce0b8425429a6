// Carries out privacy requests: erasures until all data is deleted, exports into a bundle. The user who asked for an
// export is notified, or else the account owner. At startup the erasure log is read: if a restored backup contains an
// erased address, it is erased again.
import { existsSync, readdirSync, createReadStream, rmSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { must } from '../base/errors.ts'
import { DAY, MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { recipientHash, erasedForm } from '../base/recipient-hash.ts'
import { roleOf } from '../users/members.ts'
import { addNotice, ownerAddress } from '../users/notices.ts'
import { userByKey } from '../users/users.ts'
import { isReadHere } from '../inbound/recipients.ts'
import { eraseConsents } from '../campaigns/consents.ts'
import { blockErased } from '../suppressions/forget.ts'
import type { Store, Tx } from '../store/database.ts'
import { redact, betrays, markingSteps, markOf, type Erasing } from '../store/erasing.ts'
import { isBeingCopied } from '../store/leftovers.ts'
import { holdersOf, holderText } from '../store/log.ts'
import { DATABASE } from '../store/open.ts'
import { db, raw } from '../store/query.ts'
import { type Spool, QUARANTINE } from '../store/spool.ts'
import { writeBundle } from './bundle.ts'
import { exportUrl, EXPORTS, insert, type PrivacyRequest } from './requests.ts'
import { addressesOf } from './held.ts'
import { tellOfExport } from './recipient-requests.ts'
import { readLedger } from './ledger.ts'
import { isNoFile, openPlain, readPlain } from '../base/plain-file.ts'
import type { Forgotten } from '../parts/forget.ts'
import type { ServerPart } from '../parts/part.ts'
import { removeCopies } from '../store/way-back.ts'

export interface PrivacyDeps {
  store: Store
  spool: Spool
  clock: Clock
  keyring: Keyring
  log: Log
  config: Config
  subjects: readonly Pick<ServerPart, 'forget' | 'tellRecipient'>[]
  /** Whether the date is in doubt: no bundle is deleted for its age (D120). */
  doubtful: () => boolean
  /** Called when notifications are ready to be emailed. */
  noticed: () => void
  /** Wakes the queue. */
  queueChanged: () => void
}

const RETRY = 5 * MINUTE
/** The delay until an erasure runs again. Deliveries to the address should have finished by then. */
const SOON = 5 * SECOND
const KEPT = 7 * DAY

interface FinishedRequest {
  file: string | null
  /** Notifies the owner, in the transaction that completes the request. */
  tell?: (tx: Tx) => void
}

export class Privacy {
  readonly #deps: PrivacyDeps
  readonly #loop: Loop
  /** Keys of erasures whose remaining bytes are only in the WAL. */
  readonly #held = new Set<number>()

  constructor(deps: PrivacyDeps) {
    this.#deps = deps
    this.#loop = new Loop({ name: 'privacy', clock: deps.clock, log: deps.log, run: (now) => this.#run(now) })
  }

  /**
   * Must run before requests are served and emails are sent: it repeats the erasure of addresses from a restored
   * backup.
   */
  async recover(): Promise<void> {
    await this.#sweep()
    for (const request of await this.#eraseAgain()) await this.#perform(request)
  }

  start(): void {
    this.#loop.start()
  }

  ring(): void {
    this.#loop.ring()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #run(now: number): Promise<number | null> {
    const { store } = this.#deps
    const doubtful = this.#deps.doubtful()
    if (!doubtful) await this.#forgetBundles(now)
    const due = db.selectFrom('privacy_requests').selectAll().where('next_attempt_at', '<=', now).orderBy('key')
    for (const request of store.all(due)) await this.#perform(request)
    const next = raw<{ at: number | null }>(
      `select min(at) as at from (select min(next_attempt_at) as at from privacy_requests where next_attempt_at is not null
         union all select min(finished_at) + ${KEPT} from privacy_requests where file is not null)`,
    )
    const at = store.first(next)?.at ?? null
    return doubtful && at !== null ? Math.max(at, now + MINUTE) : at
  }

  async #perform(request: PrivacyRequest): Promise<void> {
    const { clock, keyring, log, store } = this.#deps
    try {
      const address = keyring.open(request.id, must(request.sealed_recipient, 'The recipient of a request'))
      const done =
        request.kind === 'export' ? await this.#export(request, address) : await this.#erase(request, address)
      const now = clock.now()
      if (done === undefined) {
        const soon = { next_attempt_at: now + SOON, updated_at: now }
        await store.write((tx) => tx.run(db.updateTable('privacy_requests').set(soon).where('key', '=', request.key)))
        return
      }
      const set = {
        status: 'done' as const,
        file: done.file,
        finished_at: now,
        next_attempt_at: null,
        sealed_recipient: null,
        updated_at: now,
      }
      await store.write((tx) => {
        tx.run(db.updateTable('privacy_requests').set(set).where('key', '=', request.key))
        done.tell?.(tx)
      })
      log.info('privacy_request_completed', { id: request.id, kind: request.kind })
    } catch (thrown) {
      log.fault(`privacy request ${request.id}`, thrown)
      const later = { next_attempt_at: clock.now() + RETRY, updated_at: clock.now() }
      await store.write((tx) => tx.run(db.updateTable('privacy_requests').set(later).where('key', '=', request.key)))
    }
  }

  /** Undefined: mail is being sent to the address now, and its result must be erased as well. */
  async #erase({ key, user_key }: PrivacyRequest, address: string): Promise<FinishedRequest | undefined> {
    const { clock, config, keyring, log, store } = this.#deps
    // Bundles about the address are copies of the erased data. A bundle about another recipient may name it too, in an
    // email to both.
    const bundles = db
      .selectFrom('privacy_requests')
      .select(['key', 'file', 'recipient_hash'])
      .where('user_key', '=', user_key)
      .where('file', 'is not', null)
      .$narrowType<{ file: string }>()
    const own = recipientHash(keyring, address)
    for (const { file, key: bundle, recipient_hash } of store.all(bundles)) {
      const path = join(config.data_dir, EXPORTS, file)
      if (recipient_hash !== own && !(await fileHolds(path, address))) continue
      await rm(path, { force: true })
      const gone = db.updateTable('privacy_requests').set({ file: null }).where('key', '=', bundle)
      await store.write((tx) => tx.run(gone))
    }
    const erasing = erasingOf(keyring, user_key, address, clock.now())
    // Rows that are erased already are not searched at each try while another process reads.
    const { busy, held, left } = await (this.#held.has(key) ? forgetRemains : scrub)(this.#deps, erasing)
    if (held) this.#waitFor(key)
    if (busy) return undefined
    this.#held.delete(key)
    // Lines of the log that are kept in memory name recipients.
    log.forget?.((text) => redact(text, erasing))
    // Another account can hold the same address legitimately, so the log contains the files with it.
    if (left.length > 0) log.warn('erased_address_remains', { files: left.join(',') })
    return { file: null }
  }

  /** Records that an erasure waits for another process, and logs the first one. */
  #waitFor(key: number): void {
    if (this.#held.size === 0) {
      const { config, log } = this.#deps
      const processes = [
        ...holdersOf(join(config.data_dir, DATABASE)).map(holderText),
        ...(isBeingCopied(config.data_dir) ? ['a backup in progress'] : []),
      ]
      log.warn('erasure_waiting', { processes: processes.join(', ') || 'unknown' })
    }
    this.#held.add(key)
  }

  async #export(request: PrivacyRequest, address: string): Promise<FinishedRequest> {
    const { id, recipient_hash, requester_key, user_key } = request
    const { clock, config, keyring, noticed, store } = this.#deps
    const file = await writeBundle(this.#deps, user_key, id, address)
    const requester = requester_key === null ? undefined : userByKey(store, requester_key)
    const mayHave = requester && (requester.operator === 1 || roleOf(store, user_key, requester.key) === 'owner')
    const recipient = mayHave ? requester.email : ownerAddress(store, user_key)
    // Other users can read mail that this server receives, so it never contains the link.
    const link = exportUrl(keyring, config.http.public_url, id, clock.now())
    const way =
      recipient !== undefined && isReadHere({ store, keyring }, recipient)
        ? `is ready. This email contains no link, because your email is delivered to this server, where other users may be able to read it. Ask the operator to fetch the export within 24 hours:\n\npostrider export fetch ${id}`
        : `is ready. Download it within 24 hours:\n\n${link}`
    const tell = (tx: Tx): void => {
      if (tellOfExport(tx, this.#deps, request, link) === true) return
      const notice = {
        user_key,
        ...(recipient !== undefined && { recipient }),
        domain_key: null,
        subject: 'A data export is ready',
        text: `The data export that was requested (request ${id}, recipient ${recipient_hash.slice(0, 12)}…) ${way}\n\nIt contains personal data. Give it only to the person it is about.\n`,
      }
      addNotice(tx, notice, clock.now())
      tx.afterCommit(noticed)
    }
    return { file, tell }
  }

  async #forgetBundles(now: number): Promise<void> {
    const { config, store } = this.#deps
    const old = db
      .selectFrom('privacy_requests')
      .select(['key', 'file'])
      .where('file', 'is not', null)
      .where('finished_at', '<=', now - KEPT)
      .$narrowType<{ file: string }>()
    for (const { file, key } of store.all(old)) {
      await rm(join(config.data_dir, EXPORTS, file), { force: true })
      await store.write((tx) => tx.run(db.updateTable('privacy_requests').set({ file: null }).where('key', '=', key)))
    }
  }

  /** Deletes incomplete bundle files after a crash. */
  async #sweep(): Promise<void> {
    const { config, store } = this.#deps
    const directory = join(config.data_dir, EXPORTS)
    for (const name of existsSync(directory) ? readdirSync(directory) : [])
      if (!store.first(db.selectFrom('privacy_requests').select('key').where('file', '=', name)))
        await rm(join(directory, name), { force: true })
  }

  /** Creates requests for the erasures that are in the log but not in the database, because the database is older. */
  async #eraseAgain(): Promise<PrivacyRequest[]> {
    const back: PrivacyRequest[] = []
    const { config, keyring, log, store } = this.#deps
    const known = new Map<number, Map<string, string>>()
    for (const { id, recipient_hash, user } of readLedger(config.data_dir)) {
      const owner = store.first(db.selectFrom('users').select('key').where('id', '=', user))
      if (!owner || store.first(db.selectFrom('privacy_requests').select('key').where('id', '=', id))) continue
      const addresses =
        known.get(owner.key) ??
        new Map([...addressesOf(store, owner.key)].map((each) => [recipientHash(keyring, each), each] as const))
      known.set(owner.key, addresses)
      const address = addresses.get(recipient_hash) ?? null
      if (address !== null) log.warn('erasure_repeated', { id })
      // Stored even without matches. Otherwise the entry would erase an address that is added later.
      const deps = { ...this.#deps, ring: () => {} }
      const request = await store.write((tx) => {
        const now = this.#deps.clock.now()
        blockErased(tx, owner.key, `#${recipient_hash}`, now)
        // Consents of removed contacts have only the hash, so the address may be unknown.
        eraseConsents(tx, owner.key, address ?? '', recipient_hash, now)
        return insert(tx, deps, { userKey: owner.key, kind: 'erasure', id, address, hash: recipient_hash })
      })
      if (address !== null) back.push(request)
    }
    return back
  }
}

// Erases an address from every store of an account (D56): rows, bodies, files, payloads, the log, and the places where
// SQLite keeps deleted data. Afterwards run.ts searches the data directory for the address, and logs a warning for each
// file that still holds it.

export interface ScrubDeps {
  store: Store
  spool: Spool
  keyring: Keyring
  config: { data_dir: string }
  subjects: readonly Pick<ServerPart, 'forget'>[]
}

const CHUNK = 256 * 1024
/** Bytes of the database that are read and searched at a time. */
const SLICE = 4 * 1024 * 1024
/** Longer than any form of an address. */
const OVERLAP = 2048
/** A larger database is not searched, because it would have to fit in memory. SQLite overwrites deleted data anyway. */
const LOOKED_THROUGH = 256 * 1024 * 1024
/** A database up to this size can be rewritten without a long delay for other work. */
const REBUILT_AT_A_GUESS = 16 * 1024 * 1024

export function erasingOf(keyring: Keyring, userKey: number, address: string, at: number): Erasing {
  const hash = erasedForm(keyring, address)
  return { userKey, address, hash, mark: markOf(hash), at }
}

export interface Scrubbed {
  /** An email or message with the address is being processed, so the erasure must run again afterwards. */
  busy: boolean
  /** The rows are erased. The bytes are erased when no other process reads the database or its older state. */
  held?: true
  /** The files that still contain the address. */
  left: string[]
}

/** Erases the address, some rows in each transaction, so that other writes are not delayed. */
export async function scrub(deps: ScrubDeps, erasing: Erasing): Promise<Scrubbed> {
  const { spool, store, subjects } = deps
  const forgets = subjects.flatMap(({ forget }) => forget ?? [])
  const read = (file: string): Uint8Array => bytesAt(spool.path(file))
  const isBusy = (): boolean => forgets.some((each) => each.busy?.(store, erasing, read))
  await store.write((tx) => {
    for (const { first } of forgets) first?.(tx, erasing)
  })
  // An unparsed message has no rows to search, but can get them before this run finishes.
  let busy = isBusy()
  for (const walk of forgets.flatMap(({ walks = [] }) => walks))
    for (let at: number | null = 0; at !== null;) {
      const from: number = at
      const { files, left, next } = await store.writeSoon((tx): Forgotten => walk(tx, erasing, from, read))
      await Promise.all(files.map((file) => spool.remove(file)))
      busy ||= left === true
      at = next
    }
  for (const step of [...forgets.flatMap(({ steps = [] }) => steps), ...markingSteps])
    for (let at: number | null = 0; at !== null;) {
      const from: number = at
      at = await store.writeSoon((tx) => step(tx, erasing, from))
    }
  if (busy || isBusy()) return { busy: true, left: [] }
  // An earlier try may have removed rows but not their files.
  await spool.removeLeft()
  return forgetRemains(deps, erasing)
}

/** The bytes of a file, or an empty array if it does not exist. */
function bytesAt(path: string): Uint8Array {
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
  // Copies of the database from before an upgrade still contain the address.
  removeCopies(config.data_dir)
  // Another process that reads the database blocks the checkpoint of the WAL, and a process that makes a backup copies
  // it.
  if (isBeingCopied(config.data_dir) || !store.checkpoint()) return { busy: true, held: true, left: [] }
  const size = statSync(join(config.data_dir, 'postrider.db')).size
  const says = async (loose: boolean): Promise<boolean> =>
    size <= LOOKED_THROUGH && (await databaseContains(store, store.octets(), address, loose))
  // `loose` also matches inside longer text, such as another column's bytes. An unnecessary rewrite of a small database
  // is cheap.
  if ((await says(size <= REBUILT_AT_A_GUESS)) && !store.rebuild()) return { busy: true, held: true, left: [] }
  const left = await filesWith(config.data_dir, address, OPENED)
  return { busy: false, left: (await says(false)) ? [...left, 'postrider.db'] : left }
}

/** Searches in slices, so that other work can run between them. */
async function databaseContains(store: Store, bytes: Uint8Array, address: string, loose: boolean): Promise<boolean> {
  for (let at = 0; at < bytes.length; at += SLICE) {
    if (betrays(bytes.subarray(at, at + SLICE + OVERLAP), address, loose)) return true
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

/** The files of the data directory that contain the address, in plain text, base64 or quoted-printable. */
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

/** Whether a file contains the address in any of those forms. */
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
    // The file was deleted since it was listed. An unreadable file may contain the address, so the erasure is not
    // complete.
    if (!isNoFile(thrown)) throw thrown
  }
  return false
}
