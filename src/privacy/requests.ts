// Requests about a recipient (D56, D57): to erase all data, or to export it.
// Both are stored at once and carried out soon after.
import { type Clock, iso, DAY } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { refuse } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import { recipientHash } from '../base/recipient-hash.ts'
import { comparableOf } from '../message/address.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { holdsAddress } from './held.ts'
import { enter } from './ledger.ts'

/** The directory of bundles, within the data directory. */
export const EXPORTS = 'exports'

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
      `"${text.slice(0, 320)}" is not an email address. Put a percent-encoded address into the path.`,
      {
        parameter: 'recipient',
      },
    )
  return address
}

/** The refusal of a request about a recipient of whom the account has no data. */
export const notHeld = () => refuse('not_found', 'No data about this recipient is stored. Check the address.')

/** Requests an erasure. Throws 404 if the account never held the address. A repeat returns the existing request. */
export async function requestErasure(
  deps: RequestDeps,
  user: { key: number; id: string },
  address: string,
): Promise<PrivacyRequest> {
  const hash = recipientHash(deps.keyring, address)
  const held = await holdsAddress(deps, user.key, address)
  return deps.store.write((tx) => {
    const earlier = newestOf(tx, 'privacy_requests', { user_key: user.key, kind: 'erasure', recipient_hash: hash })
    if (!held && earlier?.status !== 'pending') {
      if (earlier) return earlier
      throw notHeld()
    }
    return eraseIn(tx, deps, user, { address, hash })
  })
}

/** Starts the erasure of an address, or returns the request that is in progress. */
export function eraseIn(
  tx: Tx,
  deps: RequestDeps,
  user: { key: number; id: string },
  { address, hash }: { address: string; hash: string },
): PrivacyRequest {
  const earlier = newestOf(tx, 'privacy_requests', { user_key: user.key, kind: 'erasure', recipient_hash: hash })
  if (earlier?.status === 'pending') return earlier
  const { clock, config } = deps
  const now = clock.now()
  const id = newId(now)
  // The log is written first: its entries are repeated even if the database is lost or replaced by an older one.
  enter(config.data_dir, { id, user: user.id, recipient_hash: hash, at: iso(now) }, config.privacy.ledger_copy)
  return insert(tx, deps, { userKey: user.key, kind: 'erasure', id, address, hash })
}

/**
 * Requests an export of all data about an address. `requester`: the key of the signed-in user who receives the link, or
 * null for the owner of the account. Throws 404 when the account never held it.
 */
export async function requestExport(
  deps: RequestDeps,
  user: { key: number; requester: number | null },
  address: string,
): Promise<PrivacyRequest> {
  const hash = recipientHash(deps.keyring, address)
  const held = await holdsAddress(deps, user.key, address)
  return deps.store.write((tx) => {
    const earlier = newestOf(tx, 'privacy_requests', { user_key: user.key, kind: 'export', recipient_hash: hash })
    if (earlier?.status === 'pending' && earlier.requester_key === user.requester) return earlier
    if (!held) throw notHeld()
    const { key: userKey, requester } = user
    return insert(tx, deps, { userKey, requester, kind: 'export', id: newId(deps.clock.now()), address, hash })
  })
}

interface NewRequest {
  userKey: number
  kind: PrivacyRequest['kind']
  id: string
  /** Null: only the hash of the address is known. */
  address: string | null
  hash: string
  requester?: number | null
}

/** Stores a request. A request without an address is already done. An erasure answers all requests of the recipient. */
export function insert(
  tx: Tx,
  { clock, keyring, ring }: Pick<RequestDeps, 'clock' | 'keyring' | 'ring'>,
  { address, hash, id, kind, requester = null, userKey }: NewRequest,
): PrivacyRequest {
  const now = clock.now()
  const row = {
    id,
    user_key: userKey,
    requester_key: requester,
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
  const request = tx.one(db.insertInto('privacy_requests').values(row).returningAll())
  if (kind === 'erasure') closeAsked(tx, request, now)
  return request
}

/** Closes the requests of a recipient who is erased: nothing is left to export, and no address to answer to. */
function closeAsked(tx: Tx, { key, recipient_hash, user_key }: PrivacyRequest, now: number): void {
  const asked = db
    .updateTable('recipient_requests')
    .where('user_key', '=', user_key)
    .where('recipient_hash', '=', recipient_hash)
  const closed = { state: 'done', answered_at: now, request_key: key, updated_at: now } as const
  tx.run(asked.set(closed).where('state', '=', 'open'))
  tx.run(asked.set({ email: null }))
}

/** The newest request of a kind about a recipient: of the account, or of the recipient. */
export const newestOf = <Table extends 'privacy_requests' | 'recipient_requests'>(
  reader: Reader,
  table: Table,
  { kind, recipient_hash, user_key }: Pick<PrivacyRequest, 'kind' | 'recipient_hash' | 'user_key'>,
): RowOf<Table> | undefined =>
  reader.first(
    raw<RowOf<Table>>(
      `select * from ${table} where user_key = ? and recipient_hash = ? and kind = ? order by key desc limit 1`,
      [user_key, recipient_hash, kind],
    ),
  )

/** All requests with their owners, newest first, for the operator. */
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

// The link to an export (D57): signed, valid for 24 hours, and only while the bundle is kept.

const LIFE = DAY
const MAC_BYTES = 16

const said = (id: string, until: number): string => `export ${id} ${until}`

export function exportUrl(keyring: Keyring, publicUrl: string, id: string, now: number): string {
  const until = now + LIFE
  return `${publicUrl}/exports/${id}/${until}/${keyring.mac('session', said(id, until), MAC_BYTES).toString('base64url')}`
}

/** Returns the file of a link, or undefined if the link is forged or expired, or the bundle was deleted. */
export function exportFile(
  { keyring, store }: { keyring: Keyring; store: Reader },
  { id, mac, until }: { id: string; until: string; mac: string },
  now: number,
): string | undefined {
  const time = Number(until)
  if (
    !/^\d{1,15}$/.test(until) ||
    !keyring.proves('session', said(id, time), Buffer.from(mac, 'base64url'), MAC_BYTES) ||
    now >= time
  )
    return undefined
  return store.first(db.selectFrom('privacy_requests').select('file').where('id', '=', id))?.file ?? undefined
}
