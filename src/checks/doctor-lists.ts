// The check of `postrider doctor` for blocklists (RFC 5782). A list is believed only when its test entries are right
// (§5), and an address is listed only by a code that the list documents: other answers say something about the query.
import { allowPublicAnd, reversed } from '../base/network.ts'
import type { Resolver } from '../net/resolver.ts'
import { bad, unasked, warn, well, type Finding } from './doctor-machine.ts'
import { ownAddresses, type World } from './doctor-network.ts'

interface List {
  zone: string
  /** The answers that mean "listed", as the list documents them. */
  listed: readonly string[]
  /** The answers that mean that the list refuses the query. */
  refusals: readonly string[]
}

/** The codes 127.0.0.N. */
const codes = (...last: number[]): string[] => last.map((octet) => `127.0.0.${octet}`)

const LISTS: readonly List[] = [
  {
    zone: 'zen.spamhaus.org',
    listed: codes(2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 30),
    refusals: ['127.255.255.252', '127.255.255.254', '127.255.255.255'],
  },
  { zone: 'bl.spamcop.net', listed: codes(2), refusals: [] },
  { zone: 'b.barracudacentral.org', listed: codes(2), refusals: [] },
  { zone: 'psbl.surriel.com', listed: codes(2), refusals: [] },
]

/** Every list has the first of these addresses, and no list has the second (RFC 5782 §5). */
const LISTED = '127.0.0.2'
const NOT_LISTED = '127.0.0.1'

const isPublic = allowPublicAnd([])

/** `because`: why the answer does not count. */
type Said = { listed: boolean } | { because: string; silent: boolean }

/** What a list says of an address. */
async function ask(resolver: Pick<Resolver, 'a'>, list: List, address: string): Promise<Said> {
  const answer = await resolver.a(`${reversed(address)}.${list.zone}`)
  if (answer.kind === 'failed') return { because: `no answer from ${list.zone}`, silent: true }
  if (answer.kind !== 'found') return { listed: false }
  const refusal = answer.records.find((code) => list.refusals.includes(code))
  if (refusal !== undefined) return { because: `${list.zone} refuses to answer (${refusal})`, silent: true }
  if (answer.records.some((code) => list.listed.includes(code))) return { listed: true }
  const strange = answer.records.join(', ')
  return { because: `${list.zone} answers ${strange}, which is not one of its codes`, silent: false }
}

/** Why a list cannot be believed; undefined when its test entries are right. */
async function doubts(
  resolver: Pick<Resolver, 'a'>,
  list: List,
): Promise<Exclude<Said, { listed: boolean }> | undefined> {
  const [has, hasNot] = await Promise.all([ask(resolver, list, LISTED), ask(resolver, list, NOT_LISTED)])
  if ('because' in has) return has
  if ('because' in hasNot) return hasNot
  const wrong = [...(has.listed ? [] : [`without ${LISTED}`]), ...(hasNot.listed ? [`with ${NOT_LISTED}`] : [])]
  if (wrong.length === 0) return undefined
  return { because: `${list.zone} does not answer properly: it is ${wrong.join(' and ')} (RFC 5782)`, silent: false }
}

/** What a list says of these addresses: those that it lists, and why its answers do not count. */
async function consult(resolver: Pick<Resolver, 'a'>, list: List, addresses: readonly string[]) {
  const doubt = await doubts(resolver, list)
  if (doubt) return { listed: [], unsure: [doubt] }
  const said = await Promise.all(
    addresses.map(async (address) => ({ address, said: await ask(resolver, list, address) })),
  )
  return {
    listed: said.flatMap(({ address, said: each }) =>
      'listed' in each && each.listed ? [`${address} on ${list.zone}`] : [],
    ),
    unsure: said.flatMap(({ said: each }) => ('because' in each ? [each] : [])),
  }
}

/** Whether the addresses of this server's host name are on a blocklist. */
export async function judgeBlocklists(world: World): Promise<Finding> {
  const check = 'blocklists'
  const all = await ownAddresses(world)
  if (all === undefined) return unasked(check, world.config.hostname)
  // Lists have public addresses only; some lists answer for all other addresses that they are listed.
  const addresses = all.filter(isPublic)
  if (all.length > 0 && addresses.length === 0)
    return well(check, `${all.join(', ')} ${all.length === 1 ? 'is' : 'are'} not public; lists are not asked about it`)
  if (addresses.length === 0)
    return warn(check, 'the hostname has no address to look for', `Publish an A record for ${world.config.hostname}.`)
  const found = await Promise.all(LISTS.map((list) => consult(world.resolver, list, addresses)))
  const listed = found.flatMap((each) => each.listed)
  if (listed.length > 0)
    return bad(
      check,
      listed.toSorted().join('; '),
      'Find out why at the page of the list, fix that, and ask for removal there.',
    )
  const unsure = found.flatMap((each) => each.unsure)
  if (unsure.length === 0)
    return well(check, `${addresses.join(', ')} on none of ${LISTS.map(({ zone }) => zone).join(', ')}`)
  return warn(
    check,
    [...new Set(unsure.map(({ because }) => because))].join('; '),
    unsure.some(({ silent }) => silent)
      ? 'Lists do not answer large public resolvers: use one of your own ("dns.servers").'
      : 'Such a list says nothing about this server; see its page, and that your resolver does not change answers.',
  )
}
