// Finds the hosts for a domain's mail: the relay that the operator configured, else the domain's mail exchangers
// (RFC 5321 §5.1, null MX RFC 7505). The answer is a list of hosts in the order to try them, or a verdict.
import { isIP } from 'node:net'
import type { Config } from '../base/config.ts'
import type { AddressCheck } from '../base/network.ts'
import type { ResolverAnswer, Resolver, ValidatedAnswer } from '../net/resolver.ts'
import { NOT_ASKED, writeSecurity, type DnsState } from './security.ts'
import { ownVerdict, waitsForUs, type Circumstance, type Verdict } from './verdict.ts'

export type Relay = Config['delivery']['routes'][number]

export interface Host {
  name: string
  port: number
  /** The preference of the host's MX record; hosts with the same preference are equal. Absent without a record. */
  preference?: number
  relay?: Relay
  /** Whether the domain's MX records (or that it has none) were validated; absent when nobody asked. */
  mx?: DnsState
  /** The domain's MTA-STS policy does not name it: only DANE can prove it. */
  unlisted?: true
  /** IP address when DNS is not needed: for our own listener. */
  address?: string
}

export interface RouteOptions {
  resolver: Resolver
  routes: readonly Relay[]
  /** Port of receiving exchangers. */
  port: number
  /** Our own host name: mail to an exchanger of that name would loop. */
  hostname: string
  /** Our own listener, when it takes mail for the domain: then our host name is the destination and not a loop. */
  home?: ((domain: string) => Host | 'closed' | undefined) | undefined
}

/** Hosts beyond this many are not tried: a domain with more is hostile or misconfigured. */
const MAX_HOSTS = 10
const MAX_ADDRESSES = 20

/**
 * The hosts for a recipient domain (A-label), best first, equal preferences in random order;
 * a verdict when there is none. Never rejects.
 */
export async function findHosts(
  options: RouteOptions,
  domain: string,
  random: () => number = Math.random,
): Promise<Host[] | Verdict> {
  const relay =
    options.routes.find(({ domains }) => domains.includes(domain)) ??
    options.routes.find(({ domains }) => domains.includes('*'))
  if (relay) return [{ name: relay.host, port: relay.port, relay }]
  const at = { stage: 'dns' } as const
  const { validated } = options.resolver
  const answer = await (validated ?? options.resolver).mx(domain)
  const state: { mx?: DnsState } = 'secure' in answer ? { mx: answer.secure ? 'secure' : 'insecure' } : {}
  switch (answer.kind) {
    case 'nxdomain':
      return ownVerdict('failed', '5.1.2', `The domain ${domain} does not exist.`, at)
    case 'failed':
      return notLookedUp(`The mail exchangers of ${domain}`, answer, {
        ...at,
        ...(validated ? { security: dnsFailed('mx') } : {}),
      })
    case 'none':
      // No MX record: the domain itself is its exchanger.
      return [{ name: domain, port: options.port, ...state }]
    case 'found':
      break
  }
  if (answer.records.every(({ exchange }) => exchange === '' || exchange === '.'))
    return ownVerdict('failed', '5.1.10', `The domain ${domain} says in DNS that it takes no mail (null MX).`, at)
  const sorted = answer.records
    .filter(({ exchange }) => exchange !== '' && exchange !== '.')
    .map((record) => ({ ...record, order: random() }))
    .sort((a, b) => a.priority - b.priority || a.order - b.order)
  const self = sorted.find(({ exchange }) => exchange === options.hostname)
  // Exchangers no better than this server would only send the mail back to it (RFC 5321 §5.1).
  const usable = self ? sorted.filter(({ priority }) => priority < self.priority) : sorted
  const home = usable.length === 0 ? options.home?.(domain) : undefined
  if (home === 'closed')
    return ownVerdict('deferred', '4.4.1', `Mail for ${domain} is taken here, by a server that does not run now.`, at)
  if (home) return [home]
  if (usable.length === 0)
    return ownVerdict('failed', '5.4.6', `The mail exchanger of ${domain} is this server itself.`, at)
  return usable
    .slice(0, MAX_HOSTS)
    .map(({ exchange, priority }) => ({ name: exchange, port: options.port, preference: priority, ...state }))
}

/** The line for the record when a question failed before there was an address. */
export const dnsFailed = (what: 'mx' | 'address', mx: DnsState = 'not_asked'): string =>
  writeSecurity({ cipher: null, policy: null, proof: 'none', dnssec: { ...NOT_ASKED, mx, [what]: 'failed' } })

/** What DNS says of a host's addresses, IPv4 first; validated where that is asked for. */
export async function askAddresses(
  resolver: Resolver,
  { address, name }: Host,
): Promise<(ResolverAnswer<string> | ValidatedAnswer<string>)[]> {
  const literal = address ?? (isIP(name) ? name : undefined)
  if (literal !== undefined) return [{ kind: 'found', records: [literal] }]
  const asking = resolver.validated ?? resolver
  return Promise.all([asking.a(name), asking.aaaa(name)])
}

/**
 * The addresses of a host that we may connect to, IPv4 first.
 * A verdict when there is none: `failed` when that is permanent, else `deferred`.
 */
export const findAddresses = async (
  resolver: Resolver,
  host: Host,
  allowed: AddressCheck,
): Promise<string[] | Verdict> => chooseAddresses(host, await askAddresses(resolver, host), allowed)

/** The same by answers that are there. */
export function chooseAddresses(
  { address, mx, name, relay }: Host,
  answers: readonly (ResolverAnswer<string> | ValidatedAnswer<string>)[],
  allowed: AddressCheck,
): string[] | Verdict {
  if (address !== undefined) return [address]
  const at = { stage: 'dns', host: name, ...(mx ? { security: dnsFailed('address', mx) } : {}) } as const
  const all = answers.flatMap((answer) => (answer.kind === 'found' ? answer.records : []))
  // The operator chose the relay, which may be in a private network.
  const usable = relay ? all : all.filter(allowed)
  if (usable.length > 0) return usable.slice(0, MAX_ADDRESSES)
  if (all.length > 0)
    return ownVerdict(
      'failed',
      '5.4.4',
      `${name} has only private addresses (${all[0]}); list its network in network.allow_private to send there.`,
      at,
    )
  const failed = answers.filter((answer) => answer.kind === 'failed')
  const unknown = failed.find(({ local }) => local) ?? failed[0]
  return unknown
    ? notLookedUp(`The address of ${name}`, unknown, at)
    : ownVerdict('failed', '5.4.4', `${name} has no address.`, at)
}

/** The verdict when DNS gave no answer. When this machine could not ask, the domain is not to blame (D72). */
function notLookedUp(
  what: string,
  { local, reason }: Extract<ResolverAnswer<unknown>, { kind: 'failed' }>,
  at: Circumstance,
): Verdict {
  const text = `${what} could not be looked up (${reason}).`
  return local ? waitsForUs(at, text) : ownVerdict('deferred', '4.4.3', text, at)
}
