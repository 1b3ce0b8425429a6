// The addresses that the owner of a domain knows: each network has a name, such as "newsletter service" (DV56).
import type { Clock } from '../base/clock.ts'
import { refuseAttribute } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { inNetworks, isNetwork } from '../base/network.ts'
import type { Domain } from '../domains/find.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import { addressOf } from './reading/values.ts'

export type KnownSource = RowOf<'known_sources'>

const MOST_OF_DOMAIN = 500

export const knownSourcesOf = (reader: Reader, domainKey: number): KnownSource[] =>
  reader.all(db.selectFrom('known_sources').selectAll().where('domain_key', '=', domainKey).orderBy('key'))

/** The name of an address; the smallest network that has it wins. */
export function namesOfAddresses(known: readonly KnownSource[]): (address: string) => string | undefined {
  const bits = ({ network }: KnownSource): number => Number(network.split('/')[1] ?? 128)
  const lists = known
    .toSorted((one, other) => bits(other) - bits(one))
    .map(({ name, network }) => ({ name, has: inNetworks([network]) }))
  return (address) => lists.find(({ has }) => has(address))?.name
}

/** Gives a network or an address a name; one that has a name gets the new one. Throws 422. */
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
      'It must be an address such as 192.0.2.1, or a network such as 192.0.2.0/24.',
    )
  const name = given.name.trim()
  if (name === '') throw refuseAttribute('required', 'name', 'Say whose address it is, such as "newsletter service".')
  const network = bits === undefined ? written : `${written}/${Number(bits)}`
  const now = clock.now()
  return store.write((tx) => {
    const all = knownSourcesOf(tx, domain_key)
    const same = all.find((each) => each.network === network)
    if (!same && all.length >= MOST_OF_DOMAIN)
      throw refuseAttribute(
        'invalid',
        'network',
        `A domain has at most ${MOST_OF_DOMAIN} named addresses; name a network.`,
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
