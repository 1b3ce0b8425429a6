// The brand of an account: the look and the default sender of its campaigns, which the pages for recipients show, too.
import type { Clock } from '../base/clock.ts'
import { refuseAttribute } from '../base/errors.ts'
import { formatAddress, inFamily, knownAddress } from '../message/address.ts'
import { campaignSender } from '../message/identity.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'

export type Brand = Omit<RowOf<'brands'>, 'key' | 'user_key' | 'updated_at'>

const NO_BRAND: Brand = { sender_name: null, from_address: null, logo: null, colour: null, postal_address: null }

export const brandOf = (reader: Reader, userKey: number): Brand =>
  reader.first(
    db
      .selectFrom('brands')
      .select(['sender_name', 'from_address', 'logo', 'colour', 'postal_address'])
      .where('user_key', '=', userKey),
  ) ?? NO_BRAND

/** Changes the brand of an account. Throws 422 if its From address belongs to no active domain of the account. */
export function changeBrand(
  { clock, store }: { clock: Clock; store: Store },
  userKey: number,
  change: Partial<Brand>,
): Promise<Brand> {
  return store.write((tx) => {
    if (change.from_address) requireActiveDomain(tx, userKey, change.from_address)
    const given = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined))
    const brand = { ...brandOf(tx, userKey), ...given, updated_at: clock.now() }
    tx.run(
      db
        .insertInto('brands')
        .values({ user_key: userKey, ...brand })
        .onConflict((conflict) => conflict.column('user_key').doUpdateSet(brand)),
    )
    return brandOf(tx, userKey)
  })
}

function requireActiveDomain(reader: Reader, userKey: number, from: string): void {
  const { domain } = knownAddress(from)
  const own = reader
    .all(
      db
        .selectFrom('domains')
        .select(['name', 'status'])
        .where('user_key', '=', userKey)
        .where('deleted_at', 'is', null)
        .orderBy('key'),
    )
    .filter(({ name }) => inFamily(name, domain))
  if (own.some(({ status }) => status === 'active')) return
  const [pending] = own
  throw pending
    ? refuseAttribute(
        'domain_not_active',
        'from_address',
        `The domain ${pending.name} is not verified. Publish its DNS records first, or use an address on a verified domain.`,
      )
    : refuseAttribute(
        'address_outside_domain',
        'from_address',
        `${domain} is not a sending domain of this account. Add and verify it first, or use an address on a verified domain.`,
      )
}

/**
 * The sender of new campaigns on a sending domain, or null if the brand has none. An address of another domain is not
 * used, but the name is.
 */
export function defaultSender({ from_address, sender_name }: Brand, domain: string): string | null {
  const fits = from_address !== null && inFamily(domain, knownAddress(from_address).domain)
  if (!fits && sender_name === null) return null
  return formatAddress({ address: campaignSender(fits ? from_address : null, domain), name: sender_name ?? '' })
}
