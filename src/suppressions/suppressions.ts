// Addresses that must not be mailed, for each sending domain (specification "Suppression", D35, D36). An entry of scope
// `all` blocks every email, one of scope `marketing` only campaigns. An expired entry does not block, but is kept so
// that the next suppression lasts longer.
import { DAY, HOUR, type Clock } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import { erasedForm } from '../base/recipient-hash.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { hasErased, normalised } from './stops.ts'

export type Suppression = RowOf<'suppressions'>
export type Reason = Suppression['reason']

const PERMANENT: readonly Reason[] = ['hard_bounce', 'complaint']
const SOFT_BOUNCES = 3
const SOFT_WINDOW = 72 * HOUR
const SOFT_FIRST = 7 * DAY
const SOFT_LONGEST = 30 * DAY

/** The forms of an address in an entry: in clear, and as the hash that stays after an erasure. */
export const keptForms = (keyring: Keyring, address: string): string[] => [
  normalised(address),
  erasedForm(keyring, address),
]

/** The form for a new entry. An erased address stays a hash: an old link must not store it in clear again. */
export function keptForm(reader: Reader, keyring: Keyring, domainKey: number, address: string): string {
  if (!hasErased(reader, domainKey)) return normalised(address)
  const erased = erasedForm(keyring, address)
  const entry = db.selectFrom('suppressions').select('key').where('domain_key', '=', domainKey)
  return reader.first(entry.where('email', '=', erased)) ? erased : normalised(address)
}

/** Whether an address has unsubscribed from a domain's campaigns. */
export function marketingSuppressed(reader: Reader, domainKey: number, address: string): boolean {
  const entry = db
    .selectFrom('suppressions')
    .select('key')
    .where('domain_key', '=', domainKey)
    .where('email', '=', normalised(address))
    .where('reason', '=', 'unsubscribe')
  return reader.first(entry) !== undefined
}

export interface NewSuppression {
  user_key: number
  domain_key: number
  address: string
  reason: Reason
  source: Suppression['source']
  scope: Suppression['scope']
  expires_at?: number | null
  strikes?: number
}

/** Adds an entry or renews the one of the same reason. */
export function suppress(tx: Tx, given: NewSuppression, now: number): Suppression {
  const { address, ...rest } = given
  const domain_key = livingDomain(tx, given.domain_key)
  const row = { strikes: 0, expires_at: null, ...rest, domain_key, email: normalised(address), updated_at: now }
  return tx.one(
    db
      .insertInto('suppressions')
      .values({ id: newId(now), ...row, created_at: now })
      .onConflict((conflict) =>
        conflict.columns(['domain_key', 'email', 'reason']).doUpdateSet({
          scope: row.scope,
          source: row.source,
          strikes: row.strikes,
          expires_at: row.expires_at,
          updated_at: now,
        }),
      )
      .returningAll(),
  )
}

/**
 * The key of the domain that replaced a removed one, for links and reports that still name the old one, otherwise the
 * same key.
 */
export function livingDomain(reader: Reader, key: number): number {
  const heir = reader.first(
    raw<{ key: number }>(
      `select n.key from domains d join domains n on n.user_key = d.user_key and n.name = d.name and n.region = d.region
       where d.key = ? and d.deleted_at is not null and n.deleted_at is null`,
      [key],
    ),
  )
  return heir?.key ?? key
}

/** Copies the suppressions of earlier registrations of a domain by the same owner. */
export function inheritSuppressions(
  tx: Tx,
  { key, name, region, user_key }: { key: number; name: string; region: string; user_key: number },
): void {
  tx.run(
    raw(
      `update or ignore suppressions set domain_key = ? where domain_key in (
         select key from domains where user_key = ? and name = ? and region = ? and deleted_at is not null)`,
      [key, user_key, name, region],
    ),
  )
}

/**
 * Notes a soft bounce. The third within 72 hours suppresses the address for 7 days. Each further suppression lasts
 * twice as long, up to 30 days.
 */
export function noteSoftBounce(
  tx: Tx,
  given: Omit<NewSuppression, 'reason' | 'scope' | 'expires_at' | 'strikes'>,
  now: number,
): void {
  const email = normalised(given.address)
  const { domain_key } = given
  tx.run(db.insertInto('soft_bounces').values({ domain_key, email, at: now }))
  const recent = tx.one(
    db
      .selectFrom('soft_bounces')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('domain_key', '=', domain_key)
      .where('email', '=', email)
      .where('at', '>', now - SOFT_WINDOW),
  )
  if (recent.count < SOFT_BOUNCES) return
  const earlier = tx.first(
    db
      .selectFrom('suppressions')
      .select('strikes')
      .where('domain_key', '=', domain_key)
      .where('email', '=', email)
      .where('reason', '=', 'soft_bounce'),
  )
  const strikes = (earlier?.strikes ?? 0) + 1
  const length = Math.min(SOFT_FIRST * 2 ** (strikes - 1), SOFT_LONGEST)
  suppress(tx, { ...given, reason: 'soft_bounce', scope: 'all', strikes, expires_at: now + length }, now)
  // The next count starts at zero.
  tx.run(db.deleteFrom('soft_bounces').where('domain_key', '=', domain_key).where('email', '=', email))
}

/** Deletes soft bounces that are too old to count. Returns how many. */
export function forgetSoftBounces(store: Store, now: number): Promise<number> {
  return store.write((tx) => tx.run(db.deleteFrom('soft_bounces').where('at', '<=', now - SOFT_WINDOW)).changes)
}

/** Deletes entries. Their time is set first, because a trigger copies it to the contacts. */
function take(tx: Tx, keys: readonly number[], now: number): number {
  tx.run(db.updateTable('suppressions').set({ updated_at: now }).where('key', 'in', keys))
  return tx.run(db.deleteFrom('suppressions').where('key', 'in', keys)).changes
}

/** Removes an entry with any reason: only the operator may do this. */
export const releaseSuppression = ({ clock, store }: { clock: Clock; store: Store }, key: number): Promise<void> =>
  store.write((tx) => void take(tx, [key], clock.now()))

/** Removes an entry. Throws 422 if its reason is permanent (specification "Suppressions"). */
export function liftSuppression({ clock, store }: { clock: Clock; store: Store }, key: number): Promise<void> {
  return store.write((tx) => {
    const row = tx.first(db.selectFrom('suppressions').select(['reason', 'email']).where('key', '=', key))
    if (row && PERMANENT.includes(row.reason))
      throw refuse(
        'permanent_suppression',
        `${row.email} is suppressed permanently (${row.reason}). Use another address.`,
      )
    take(tx, [key], clock.now())
  })
}

/**
 * Removes all entries of an address on a domain, including permanent and erased ones: only the operator may do this.
 * Returns how many.
 */
export function removeSuppressions(
  { clock, keyring, store }: { clock: Clock; keyring: Keyring; store: Store },
  domainKey: number,
  address: string,
): Promise<number> {
  return store.write((tx) =>
    keptForms(keyring, address).reduce((sum, form) => sum + takeAll(tx, domainKey, form, clock.now()), 0),
  )
}

/** Like `removeSuppressions`, inside a transaction, for one reason or for all. */
export function takeAll(tx: Tx, domainKey: number, address: string, now: number, reason?: Reason): number {
  const all = db
    .selectFrom('suppressions')
    .select('key')
    .where('domain_key', '=', domainKey)
    .where('email', '=', normalised(address))
  const rows = tx.all(reason === undefined ? all : all.where('reason', '=', reason))
  const keys = rows.map(({ key }) => key)
  return keys.length === 0 ? 0 : take(tx, keys, now)
}

/** Entries of one domain or of all domains, newest first, for the operator. */
export function listSuppressions(reader: Reader, domainKey?: number): (Suppression & { domain: string })[] {
  const all = db
    .selectFrom('suppressions as s')
    .innerJoin('domains as d', 'd.key', 's.domain_key')
    .selectAll('s')
    .select('d.name as domain')
    .orderBy('s.key', 'desc')
  return reader.all(domainKey === undefined ? all : all.where('s.domain_key', '=', domainKey))
}

const PAGE = 1000

/** Entries of a domain with keys above `after`, without those of erased addresses. */
export function suppressionsAfter(reader: Reader, domainKey: number, after: number): Suppression[] {
  return reader.all(
    db
      .selectFrom('suppressions')
      .selectAll()
      .where('domain_key', '=', domainKey)
      .where('email', 'not like', '#%')
      .where('key', '>', after)
      .orderBy('key')
      .limit(PAGE),
  )
}
