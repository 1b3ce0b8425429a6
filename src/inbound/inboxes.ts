// Inboxes: addresses on a sending domain whose mail is kept and shown (specification "Inboxes", D46, D49). The first
// inbox of a domain adds the MX record that the domain needs. Removing the last one removes the record.
import type { Clock } from '../base/clock.ts'
import { refuseAttribute } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { reissueRecords } from '../domains/issue.ts'
import type { RecordsConfig } from '../domains/records.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { inboxAddress } from './recipients.ts'

export type Inbox = RowOf<'inboxes'>

export interface InboxDeps {
  store: Store
  clock: Clock
  config: RecordsConfig
  /** Wakes the domains loop. */
  ring: () => void
}

/** Creates an inbox. Throws 422 if the address is on no domain of the user, on several domains, or exists already. */
export function addInbox(
  { clock, config, ring, store }: InboxDeps,
  userKey: number,
  { name, address }: { name: string; address: string },
): Promise<Inbox> {
  return store.write((tx) => {
    const now = clock.now()
    const { address: whole, domain: domainKey } = addressAndDomain(tx, userKey, address)
    const taken = db
      .selectFrom('inboxes')
      .select('key')
      .where('domain_key', '=', domainKey)
      .where('address', '=', whole)
      .where('deleted_at', 'is', null)
    if (tx.first(taken))
      throw refuseAttribute('already_exists', 'address', `You already have an inbox ${whole}. Use the existing one.`)
    const inbox = tx.one(
      db
        .insertInto('inboxes')
        .values({
          id: newId(now),
          user_key: userKey,
          domain_key: domainKey,
          name,
          address: whole,
          created_at: now,
          updated_at: now,
        })
        .returningAll(),
    )
    if (countLive(tx, domainKey) === 1) reissueRecords(tx, { config, ring }, domainKey, now)
    return inbox
  })
}

/** The address in its stored form, and its domain. Throws 422. */
function addressAndDomain(reader: Reader, userKey: number, text: string): { address: string; domain: number } {
  const parsed = inboxAddress(text)
  if (!parsed)
    throw refuseAttribute(
      'invalid',
      'address',
      `"${text}" is not an email address. Use an address such as support@example.org.`,
    )
  const domains = reader.all(
    db
      .selectFrom('domains')
      .select(['key', 'region'])
      .where('user_key', '=', userKey)
      .where('name', '=', parsed.domain)
      .where('deleted_at', 'is', null),
  )
  const [domain, another] = domains
  if (!domain)
    throw refuseAttribute(
      'invalid',
      'address',
      `${parsed.domain} is not one of your sending domains. Create the domain first.`,
    )
  if (another)
    throw refuseAttribute(
      'ambiguous_address',
      'address',
      `${parsed.domain} exists in several regions (${domains.map(({ region }) => region).join(', ')}). Create a separate subdomain for the inbox.`,
    )
  return { address: parsed.address, domain: domain.key }
}

function countLive(reader: Reader, domainKey: number): number {
  return reader.one(
    db
      .selectFrom('inboxes')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('domain_key', '=', domainKey)
      .where('deleted_at', 'is', null),
  ).count
}

/** Renames an inbox. Its address cannot change: another one throws 422. */
export function changeInbox(
  { clock, store }: Pick<InboxDeps, 'clock' | 'store'>,
  inbox: Pick<Inbox, 'key' | 'address'>,
  { name, address }: { name?: string | undefined; address?: string | undefined },
): Promise<Inbox> {
  if (address !== undefined && inboxAddress(address)?.address !== inbox.address)
    throw refuseAttribute(
      'immutable',
      'address',
      `The address of the inbox ${inbox.address} cannot be changed. Create another inbox.`,
    )
  return store.write((tx) =>
    tx.one(
      db
        .updateTable('inboxes')
        .set({ ...(name === undefined ? {} : { name }), updated_at: clock.now() })
        .where('key', '=', inbox.key)
        .returningAll(),
    ),
  )
}

/** Removes an inbox: it no longer receives mail, and received mail stays. */
export function removeInbox({ clock, config, ring, store }: InboxDeps, key: number): Promise<void> {
  return store.write((tx) => {
    const now = clock.now()
    const removed = tx.first(
      db
        .updateTable('inboxes')
        .set({ deleted_at: now, updated_at: now })
        .where('key', '=', key)
        .where('deleted_at', 'is', null)
        .returning('domain_key'),
    )
    if (removed && countLive(tx, removed.domain_key) === 0)
      reissueRecords(tx, { config, ring }, removed.domain_key, now)
  })
}

/** Removes the inboxes of a removed domain. */
export function closeInboxes(tx: Tx, domainKey: number, now: number): void {
  tx.run(
    db
      .updateTable('inboxes')
      .set({ deleted_at: now, updated_at: now })
      .where('domain_key', '=', domainKey)
      .where('deleted_at', 'is', null),
  )
}

/** Every existing inbox with its owner, for the operator. */
export function listInboxes(reader: Reader): (Inbox & { email: string })[] {
  return reader.all(
    db
      .selectFrom('inboxes')
      .innerJoin('users', 'users.key', 'inboxes.user_key')
      .selectAll('inboxes')
      .select('users.email')
      .where('inboxes.deleted_at', 'is', null)
      .orderBy('inboxes.key'),
  )
}
