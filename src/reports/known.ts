// The sources that the owner of a domain has named: networks with names such as "newsletter service".
import { looksFalse } from '../base/clean-text.ts'
import type { Clock } from '../base/clock.ts'
import { refuseAttribute } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { familyOf, groupsOf, isNetwork } from '../base/network.ts'
import type { Domain } from '../domains/find.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import { addressOf } from './reading/values.ts'

export type KnownSource = RowOf<'known_sources'>

const MOST_OF_DOMAIN = 500
/** The shortest prefixes: a larger network would make most of the Internet known. */
const SHORTEST = { 4: 12, 6: 28 } as const

export const knownSourcesOf = (reader: Reader, domainKey: number): KnownSource[] =>
  reader.all(db.selectFrom('known_sources').selectAll().where('domain_key', '=', domainKey).orderBy('key'))

/** An address as a number, with its length in bits. */
function numberOf(address: string): { bits: 32 | 128; value: bigint } {
  if (familyOf(address) === 4)
    return { bits: 32, value: BigInt(address.split('.').reduce((all, each) => all * 256 + Number(each), 0)) }
  const groups = groupsOf(address).map((each) => each.padStart(4, '0'))
  return { bits: 128, value: BigInt(`0x${groups.join('')}`) }
}

/**
 * Returns a function that finds the smallest of these networks with an address, or for a network, with its first one.
 * It costs one lookup per prefix length, however many networks there are.
 */
export function networksOf(known: readonly Pick<KnownSource, 'network'>[]): (address: string) => string | undefined {
  const byLength = { 32: new Map<number, Map<bigint, string>>(), 128: new Map<number, Map<bigint, string>>() }
  for (const { network } of known) {
    const [address = '', length] = network.split('/')
    const { bits, value } = numberOf(address)
    const prefix = Number(length ?? bits)
    const some = byLength[bits].get(prefix) ?? new Map<bigint, string>()
    byLength[bits].set(prefix, some.set(value >> BigInt(bits - prefix), network))
  }
  const lists = (bits: 32 | 128) =>
    [...byLength[bits]]
      .toSorted(([one], [other]) => other - one)
      .map(([prefix, some]) => ({ beyond: BigInt(bits - prefix), some }))
  const sorted = { 32: lists(32), 128: lists(128) }
  return (text) => {
    const [address = ''] = text.split('/')
    if (address === '' || sorted[familyOf(address) === 4 ? 32 : 128].length === 0) return undefined
    const { bits, value } = numberOf(address)
    for (const { beyond, some } of sorted[bits]) {
      const network = some.get(value >> beyond)
      if (network !== undefined) return network
    }
    return undefined
  }
}

/** Returns a function that finds the name of an address: that of the smallest network with it. */
export function namesOfAddresses(known: readonly KnownSource[]): (address: string) => string | undefined {
  const networkOf = networksOf(known)
  const names = new Map(known.map(({ name, network }) => [network, name]))
  return (address) => names.get(networkOf(address) ?? '')
}

/** Names a network or an address, or renames it. Throws 422. */
export async function nameSource(
  { clock, store }: { clock: Clock; store: Store },
  { key: domain_key, user_key }: Pick<Domain, 'key' | 'user_key'>,
  given: { network: string; name: string },
): Promise<KnownSource> {
  const [address = '', bits] = given.network.trim().split('/')
  const written = addressOf(address)
  if (written === undefined || !isNetwork(given.network.trim()))
    throw refuseAttribute(
      'invalid',
      'network',
      '"network" is not valid. Use an address such as 192.0.2.1, or a network such as 192.0.2.0/24.',
    )
  const name = given.name.trim()
  if (name === '')
    throw refuseAttribute(
      'required',
      'name',
      '"name" is empty. Name the owner of the address, such as "newsletter service".',
    )
  if (looksFalse(name)) throw refuseAttribute('invalid', 'name', '"name" contains invisible characters. Remove them.')
  const network = bits === undefined ? written : `${written}/${Number(bits)}`
  const family = familyOf(written)
  if (!isNetwork(network) || Number(bits ?? 128) < SHORTEST[family])
    throw refuseAttribute(
      'invalid',
      'network',
      `"network" is too large, so most of its addresses are not yours. Use at least /${SHORTEST[4]} for IPv4 and /${SHORTEST[6]} for IPv6.`,
    )
  const now = clock.now()
  return store.write((tx) => {
    const all = knownSourcesOf(tx, domain_key)
    const same = all.find((each) => each.network === network)
    if (!same && all.length >= MOST_OF_DOMAIN)
      throw refuseAttribute(
        'invalid',
        'network',
        `The domain has reached the limit of ${MOST_OF_DOMAIN} named addresses. Name a network instead.`,
      )
    if (same) {
      tx.run(db.updateTable('known_sources').set({ name }).where('key', '=', same.key))
      return { ...same, name }
    }
    const row = { id: newId(now), user_key, domain_key, network, name, created_at: now }
    return { ...row, key: tx.run(db.insertInto('known_sources').values(row)).key }
  })
}

export const forgetSource = ({ store }: { store: Store }, key: number): Promise<void> =>
  store.write((tx) => void tx.run(db.deleteFrom('known_sources').where('key', '=', key)))
