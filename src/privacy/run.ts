// Carries out privacy requests: erasures until nothing is left, exports into a bundle; the owner gets a notice. At the
// start the ledger is read: an erased address that an older backup brought back is erased again.
import { existsSync, readdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { must } from '../base/errors.ts'
import { DAY, MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { recipientHash } from '../base/recipient-hash.ts'
import { addNotice } from '../accounts/notices.ts'
import { userByKey } from '../identity/users.ts'
import { isReadHere } from '../inbound/recipients.ts'
import { blockErased } from '../suppressions/forget.ts'
import type { Store, Tx } from '../store/database.ts'
import { redact } from '../store/erasing.ts'
import { isBeingCopied } from '../store/leavings.ts'
import { holdersOf, holderText } from '../store/log.ts'
import { DATABASE } from '../store/open.ts'
import { db, raw } from '../store/query.ts'
import type { Spool } from '../store/spool.ts'
import { EXPORTS, writeBundle } from './bundle.ts'
import { exportUrl } from './export-link.ts'
import { addressesOf } from './held.ts'
import { readLedger } from './ledger.ts'
import { insert, type PrivacyRequest } from './requests.ts'
import { erasingOf, fileHolds, forgetRemains, scrub } from './scrub.ts'

export interface PrivacyDeps {
  store: Store
  spool: Spool
  clock: Clock
  keyring: Keyring
  log: Log
  config: Pick<Config, 'data_dir' | 'http'>
  /** Whether the date is in doubt: no bundle is deleted for its age (D120). */
  doubtful: () => boolean
  /** Called when notices wait to be mailed. */
  noticed: () => void
}

const RETRY = 5 * MINUTE
/** The wait until an erasure runs again. Mail that is being sent to the address should have ended by then. */
const SOON = 5 * SECOND
/** How long a bundle is kept. */
const KEPT = 7 * DAY

interface FinishedRequest {
  /** The bundle. */
  file: string | null
  /** Tells the owner, in the transaction that marks the request as done. */
  tell?: (tx: Tx) => void
}

export class Privacy {
  readonly #deps: PrivacyDeps
  readonly #loop: Loop
  /** Keys of erasures of which only the octets in the log are left. */
  readonly #held = new Set<number>()

  constructor(deps: PrivacyDeps) {
    this.#deps = deps
    this.#loop = new Loop({ name: 'privacy', clock: deps.clock, log: deps.log, run: (now) => this.#run(now) })
  }

  /** Must run before anything is served or sent: it erases addresses again that an older backup brought back. */
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
      log.info('privacy request done', { id: request.id, kind: request.kind })
    } catch (thrown) {
      log.fault(`privacy request ${request.id}`, thrown)
      const later = { next_attempt_at: clock.now() + RETRY, updated_at: clock.now() }
      await store.write((tx) => tx.run(db.updateTable('privacy_requests').set(later).where('key', '=', request.key)))
    }
  }

  /** Undefined: mail is being sent to the address now, and its result must be erased as well. */
  async #erase({ key, user_key }: PrivacyRequest, address: string): Promise<FinishedRequest | undefined> {
    const { clock, config, keyring, log, store } = this.#deps
    // Bundles about the address are copies of the erased data.
    // A bundle about another recipient may name it too, in a mail to both.
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
    // Another account may rightly hold the same address; the operator is told which files do.
    if (left.length > 0) log.warn('the address is still in the data directory', { files: left.join(',') })
    return { file: null }
  }

  /** Notes that the rest of an erasure waits for another process, and says so once. */
  #waitFor(key: number): void {
    if (this.#held.size === 0) {
      const { config, log } = this.#deps
      const by = [
        ...holdersOf(join(config.data_dir, DATABASE)).map(holderText),
        ...(isBeingCopied(config.data_dir) ? ['a backup under way'] : []),
      ]
      log.warn('erasures wait: another process reads the database', { by: by.join(', ') || 'unknown' })
    }
    this.#held.add(key)
  }

  async #export({ id, recipient_hash, user_key }: PrivacyRequest, address: string): Promise<FinishedRequest> {
    const { clock, config, keyring, noticed, store } = this.#deps
    const file = await writeBundle(this.#deps, user_key, id, address)
    // Others may read mail that comes to this server, so that no link goes there.
    const owner = userByKey(store, user_key)
    const way =
      owner && isReadHere({ store, keyring }, owner.email)
        ? `is ready. Mail to your address comes to this server, where others may read it, so this mail has no link: whoever runs the server fetches the export within 24 hours with\n\npostrider export fetch ${id}`
        : `can be fetched for 24 hours:\n\n${exportUrl(keyring, config.http.public_url, id, clock.now())}`
    const tell = (tx: Tx): void => {
      const notice = {
        user_key,
        domain_key: null,
        subject: 'An export of a recipient’s data is ready',
        text: `The export that was asked for (request ${id}, recipient ${recipient_hash.slice(0, 12)}…) ${way}\n\nIt holds personal data: hand it to nobody but the person it is about.\n`,
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

  /** Deletes unfinished files of bundles that a crash left behind. */
  async #sweep(): Promise<void> {
    const { config, store } = this.#deps
    const directory = join(config.data_dir, EXPORTS)
    for (const name of existsSync(directory) ? readdirSync(directory) : [])
      if (!store.first(db.selectFrom('privacy_requests').select('key').where('file', '=', name)))
        await rm(join(directory, name), { force: true })
  }

  /** Makes requests for the erasures in the ledger that the database does not know, because the database is older. */
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
      if (address !== null) log.warn('an erasure is done again: the database is older than it', { id })
      // Stored even when nothing was found: otherwise the entry would erase an address that is added later.
      const deps = { ...this.#deps, ring: () => {} }
      const request = await store.write((tx) => {
        blockErased(tx, owner.key, `#${recipient_hash}`, this.#deps.clock.now())
        return insert(tx, deps, { userKey: owner.key, kind: 'erasure', id, address, hash: recipient_hash })
      })
      if (address !== null) back.push(request)
    }
    return back
  }
}
