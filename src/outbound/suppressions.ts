// Addresses that must not be mailed, for each sending domain (specification "Suppression", D35, D36). An entry of scope `all`
// stops every mail, one of scope `marketing` only campaigns; one that has expired stops nothing but is remembered, so that the
// next soft bounces weigh more.
import { DAY, HOUR, type Clock } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import { erasedForm } from '../base/recipient-hash.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw, statement } from '../store/query.ts'
import type { RowOf } from '../store/tables.ts'

export type Suppression = RowOf<'suppressions'>
export type Reason = Suppression['reason']

const PERMANENT: readonly Reason[] = ['hard_bounce', 'complaint']
const SOFT_BOUNCES = 3
const SOFT_WINDOW = 72 * HOUR
const SOFT_FIRST = 7 * DAY
const SOFT_LONGEST = 30 * DAY

/** The form under which addresses are compared; `address` has its domain as A-label already. */
export const normalised = (address: string): string => address.trim().toLowerCase()

const blocking = statement<{ domain_key: number; email: string; now: number }>()((arg) =>
  db
    .selectFrom('suppressions')
    .select('reason')
    .where('domain_key', '=', arg.domain_key)
    .where('email', '=', arg.email)
    .where('scope', '=', 'all')
    .where((eb) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', arg.now)]))
    .limit(1),
)

const blockingAny = statement<{ domain_key: number; email: string; now: number }>()((arg) =>
  db
    .selectFrom('suppressions')
    .select('reason')
    .where('domain_key', '=', arg.domain_key)
    .where('email', '=', arg.email)
    .where((eb) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', arg.now)]))
    .limit(1),
)

/** Whether a domain keeps any address that was erased: their forms begin with "#", and most domains have none. */
const anyErased = statement<{ domain_key: number }>()((arg) =>
  db
    .selectFrom('suppressions')
    .select('key')
    .where('domain_key', '=', arg.domain_key)
    .where('email', '>=', '#')
    .where('email', '<', '$')
    .limit(1),
)

/** What stops mail from a domain to an address: transactional mail, or that of a campaign (`marketing`). */
export function suppressedFor(
  reader: Reader,
  keyring: Keyring,
  domainKey: number,
  address: string,
  now: number,
  scope: Suppression['scope'] = 'all',
): { reason: Reason; erased: boolean } | undefined {
  const find = (email: string): { reason: Reason } | undefined =>
    reader.first((scope === 'all' ? blocking : blockingAny)({ domain_key: domainKey, email, now }))
  const found = find(normalised(address))
  if (found) return { reason: found.reason, erased: false }
  // An entry outlives the address that was erased: then it holds what recognises it.
  const kept = reader.first(anyErased({ domain_key: domainKey })) && find(erasedForm(keyring, address))
  return kept && { reason: kept.reason, erased: true }
}

/** Every form that an address may be kept in: itself, and what recognises it after it was erased. */
export const keptForms = (keyring: Keyring, address: string): string[] => [
  normalised(address),
  erasedForm(keyring, address),
]

/** The form for a new entry: what was erased is not written down again by an old link. */
export function keptForm(reader: Reader, keyring: Keyring, domainKey: number, address: string): string {
  if (!reader.first(anyErased({ domain_key: domainKey }))) return normalised(address)
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
  return tx.first(
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
  )!
}

/** The domain that stands in the place of a removed one, for links and reports that still name that; else the same. */
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

/** A domain that is registered again does not forget who must not be mailed: what its predecessors of the same owner knew is its own. */
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

/** Notes a soft bounce; the third within 72 hours suppresses for 7 days, doubling up to 30 each time it happens again. */
export function noteSoftBounce(
  tx: Tx,
  given: Omit<NewSuppression, 'reason' | 'scope' | 'expires_at' | 'strikes'>,
  now: number,
): void {
  const email = normalised(given.address)
  const { domain_key } = given
  tx.run(db.insertInto('soft_bounces').values({ domain_key, email, at: now }))
  const recent = tx.first(
    db
      .selectFrom('soft_bounces')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('domain_key', '=', domain_key)
      .where('email', '=', email)
      .where('at', '>', now - SOFT_WINDOW),
  )!
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
  // Counting begins anew.
  tx.run(db.deleteFrom('soft_bounces').where('domain_key', '=', domain_key).where('email', '=', email))
}

/** Old notes of soft bounces that no longer count; returns how many went. */
export function forgetSoftBounces(store: Store, now: number): Promise<number> {
  return store.write((tx) => tx.run(db.deleteFrom('soft_bounces').where('at', '<=', now - SOFT_WINDOW)).changes)
}

/** Deletes entries; the time stays with what follows them (contacts, by trigger). */
function take(tx: Tx, keys: readonly number[], now: number): number {
  tx.run(db.updateTable('suppressions').set({ updated_at: now }).where('key', 'in', keys))
  return tx.run(db.deleteFrom('suppressions').where('key', 'in', keys)).changes
}

/** Takes an entry back. Throws 422 for the reasons that are for good (specification "Suppressions"). */
export function liftSuppression({ clock, store }: { clock: Clock; store: Store }, key: number): Promise<void> {
  return store.write((tx) => {
    const row = tx.first(db.selectFrom('suppressions').select(['reason', 'email']).where('key', '=', key))
    if (row && PERMANENT.includes(row.reason))
      throw refuse(
        'permanent_suppression',
        `${row.email} is suppressed because of a ${row.reason.replace('_', ' ')}; that is permanent.`,
      )
    take(tx, [key], clock.now())
  })
}

/** Removes the entries of an address on a domain, permanent ones and those of an erasure too: the operator knows better. Returns how many. */
export function removeSuppressions(
  { clock, keyring, store }: { clock: Clock; keyring: Keyring; store: Store },
  domainKey: number,
  address: string,
): Promise<number> {
  return store.write((tx) =>
    keptForms(keyring, address).reduce((sum, form) => sum + takeAll(tx, domainKey, form, clock.now()), 0),
  )
}

/** The same within a transaction, for one reason or all. */
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

/** Entries of a domain, or of all, newest first; for the operator. */
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

/** Entries of a domain from a key on, without those whose address was erased. */
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
