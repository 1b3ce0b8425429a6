// Requests about a recipient (D56, D57): to erase all data, or to export it.
// Both are stored at once and carried out soon after.
import type { Clock } from '../base/clock.ts'
import { iso } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { refuse } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import { recipientHash } from '../base/recipient-hash.ts'
import { comparableOf } from '../message/address.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../schema/tables.ts'
import { holdsAddress } from './held.ts'
import { enter } from './ledger.ts'

export type PrivacyRequest = RowOf<'privacy_requests'>

export interface RequestDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  config: Pick<Config, 'data_dir' | 'privacy'>
  /** Wakes the loop of run.ts, because a request waits. */
  ring: () => void
}

/** The address in a path, in the form used for searching. Throws 422. */
export function recipientNamed(text: string): string {
  const address = comparableOf(text.trim())
  if (address === undefined)
    throw refuse(
      'invalid',
      `"${text.slice(0, 320)}" is not an email address; put one into the path, percent-encoded.`,
      {
        parameter: 'recipient',
      },
    )
  return address
}

/** Requests an erasure. Throws 404 when the account never held the address; a repeat returns the existing request. */
export async function requestErasure(
  deps: RequestDeps,
  user: { key: number; id: string },
  address: string,
): Promise<PrivacyRequest> {
  const { clock, config, keyring, store } = deps
  const hash = recipientHash(keyring, address)
  const held = await holdsAddress(store, user.key, address)
  return store.write((tx) => {
    const earlier = requestOf(tx, user.key, 'erasure', hash)
    if (earlier?.status === 'pending') return earlier
    if (!held) {
      if (earlier) return earlier
      throw refuse('not_found', 'Nothing is known of this recipient.')
    }
    const now = clock.now()
    const id = newId(now)
    // The ledger first: its entries are carried out again even when the database is lost or replaced by an older one.
    enter(config.data_dir, { id, user: user.id, recipient_hash: hash, at: iso(now) }, config.privacy.ledger_copy)
    return insert(tx, deps, { userKey: user.key, kind: 'erasure', id, address, hash })
  })
}

/** Requests an export of all data about an address. Throws 404 when the account never held it. */
export async function requestExport(
  deps: RequestDeps,
  user: { key: number },
  address: string,
): Promise<PrivacyRequest> {
  const hash = recipientHash(deps.keyring, address)
  const held = await holdsAddress(deps.store, user.key, address)
  return deps.store.write((tx) => {
    const earlier = requestOf(tx, user.key, 'export', hash)
    if (earlier?.status === 'pending') return earlier
    if (!held) throw refuse('not_found', 'Nothing is known of this recipient.')
    return insert(tx, deps, { userKey: user.key, kind: 'export', id: newId(deps.clock.now()), address, hash })
  })
}

interface NewRequest {
  userKey: number
  kind: PrivacyRequest['kind']
  id: string
  /** Null: only the hash of the address is known. */
  address: string | null
  hash: string
}

/** Stores a request; a request without an address is done already. */
export function insert(
  tx: Tx,
  { clock, keyring, ring }: Pick<RequestDeps, 'clock' | 'keyring' | 'ring'>,
  { address, hash, id, kind, userKey }: NewRequest,
): PrivacyRequest {
  const now = clock.now()
  const row = {
    id,
    user_key: userKey,
    kind,
    recipient_hash: hash,
    sealed_recipient: address === null ? null : keyring.seal(id, address),
    status: address === null ? ('done' as const) : ('pending' as const),
    requested_at: now,
    finished_at: address === null ? now : null,
    next_attempt_at: address === null ? null : now,
    created_at: now,
    updated_at: now,
  }
  tx.afterCommit(ring)
  return tx.one(db.insertInto('privacy_requests').values(row).returningAll())
}

function requestOf(
  reader: Reader,
  userKey: number,
  kind: PrivacyRequest['kind'],
  hash: string,
): PrivacyRequest | undefined {
  return reader.first(
    db
      .selectFrom('privacy_requests')
      .selectAll()
      .where('user_key', '=', userKey)
      .where('recipient_hash', '=', hash)
      .where('kind', '=', kind)
      .orderBy('key', 'desc')
      .limit(1),
  )
}

/** Every request with its owner, newest first; for the operator. */
export function listRequests(reader: Reader): (PrivacyRequest & { email: string })[] {
  return reader.all(
    db
      .selectFrom('privacy_requests')
      .innerJoin('users', 'users.key', 'privacy_requests.user_key')
      .selectAll('privacy_requests')
      .select('users.email')
      .orderBy('privacy_requests.key', 'desc')
      .limit(1000),
  )
}
