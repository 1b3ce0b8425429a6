// Finds the hosts for a domain's mail: the relay that the operator configured, else the domain's mail MX hosts
// (RFC 5321 §5.1, null MX RFC 7505). The answer is a list of hosts in the order to try them, or a verdict.
import { isIP } from 'node:net'
import { hostsOf, type Config } from '../base/config.ts'
import type { AddressCheck } from '../base/network.ts'
import type { ResolverAnswer, Resolver, ValidatedAnswer } from '../net/resolver.ts'
import { NOT_ASKED, writeSecurity, type DnsState } from './security.ts'
import { ownVerdict, waitsForUs, type Circumstance, type Verdict } from './verdict.ts'

export type Relay = Config['delivery']['routes'][number]

export interface Host {
  name: string
  port: number
  /** The preference of the host's MX record. Hosts with the same preference are equal. Absent without a record. */
  preference?: number
  relay?: Relay
  /** Whether the answer to the domain's MX query was validated. Absent without such a query. */
  mx?: DnsState
  /** The domain's MTA-STS policy does not name it: only DANE can prove it. */
  unlisted?: true
  /** IP address when DNS is not needed: for our own listener. */
  address?: string
}

export interface RouteOptions {
  resolver: Resolver
  routes: readonly Relay[]
  /** Port of receiving MX hosts. */
  port: number
  /** Our own host name: mail to an MX host of that name would loop. */
  hostname: string
  /** Our own listener, when it takes mail for the domain: then our host name is the destination and not a loop. */
  home?: ((domain: string) => Host | 'closed' | undefined) | undefined
}

/** Hosts beyond this many are not tried: a domain with more is hostile or misconfigured. */
const MAX_HOSTS = 10
const MAX_RELAY_HOSTS = 20
const MAX_ADDRESSES = 20

/**
 * Returns the hosts for a recipient domain (A-label), best first, equal preferences in random order, or a verdict
 * without any host. Never rejects.
 */
export async function findHosts(
  options: RouteOptions,
  domain: string,
  random: () => number = Math.random,
): Promise<Host[] | Verdict> {
  const relay =
    options.routes.find(({ domains }) => domains.includes(domain)) ??
    options.routes.find(({ domains }) => domains.includes('*'))
  return relay ? relayHosts(options, relay, random) : mxHosts(options, domain, MAX_HOSTS, random)
}

/** The domain whose MX hosts are the hosts of a relay ("mx:NAME"), or undefined if the configuration has the hosts. */
export const mxNameOf = ({ host }: Relay): string | undefined =>
  host.startsWith('mx:') ? host.slice(3).toLowerCase() : undefined

/** Returns the hosts of a relay as `findHosts` does. The hosts of its configuration are equal. */
export async function relayHosts(
  { hostname, resolver }: Pick<RouteOptions, 'hostname' | 'resolver'>,
  relay: Relay,
  random: () => number = Math.random,
): Promise<Host[] | Verdict> {
  const domain = mxNameOf(relay)
  if (domain === undefined) return hostsOf(relay).map(({ host, port }) => ({ name: host, port, relay }))
  const found = await mxHosts({ hostname, resolver, port: relay.port }, domain, MAX_RELAY_HOSTS, random)
  if (Array.isArray(found)) return found.map((host) => ({ ...host, relay }))
  // The email is not to blame for a setting of this server (D72).
  return found.kind === 'failed' ? waitsForUs({ stage: 'dns' }, `The relay ${relay.host}: ${found.text}`) : found
}

async function mxHosts(
  options: Omit<RouteOptions, 'routes'>,
  domain: string,
  most: number,
  random: () => number,
): Promise<Host[] | Verdict> {
  const at = { stage: 'dns' } as const
  const { validated } = options.resolver
  const answer = await (validated ?? options.resolver).mx(domain)
  const state: { mx?: DnsState } = 'secure' in answer ? { mx: answer.secure ? 'secure' : 'insecure' } : {}
  switch (answer.kind) {
    case 'nxdomain':
      return ownVerdict('failed', '5.1.2', `The domain ${domain} does not exist.`, at)
    case 'failed':
      return notLookedUp(`the MX records of ${domain}`, answer, {
        ...at,
        ...(validated ? { security: dnsFailed('mx') } : {}),
      })
    case 'none':
      // No MX record: the domain itself is its MX host.
      return [{ name: domain, port: options.port, ...state }]
    case 'found':
      break
  }
  if (answer.records.every(({ exchange }) => exchange === '' || exchange === '.'))
    return ownVerdict('failed', '5.1.10', `The domain ${domain} does not accept email (null MX).`, at)
  const sorted = answer.records
    .filter(({ exchange }) => exchange !== '' && exchange !== '.')
    .map((record) => ({ ...record, order: random() }))
    .sort((a, b) => a.priority - b.priority || a.order - b.order)
  const self = sorted.find(({ exchange }) => exchange === options.hostname)
  // MX hosts no better than this server would only send the mail back to it (RFC 5321 §5.1).
  const usable = self ? sorted.filter(({ priority }) => priority < self.priority) : sorted
  const home = usable.length === 0 ? options.home?.(domain) : undefined
  if (home === 'closed')
    return ownVerdict(
      'deferred',
      '4.4.1',
      `This server receives the email of ${domain}, but its SMTP listener is not running.`,
      at,
    )
  if (home) return [home]
  if (usable.length === 0)
    return ownVerdict('failed', '5.4.6', `The MX host of ${domain} is this server itself (mail loop).`, at)
  return usable
    .slice(0, most)
    .map(({ exchange, priority }) => ({ name: exchange, port: options.port, preference: priority, ...state }))
}

/** The line for the record when a question failed before there was an address. */
export const dnsFailed = (what: 'mx' | 'address', mx: DnsState = 'not_queried'): string =>
  writeSecurity({ cipher: null, policy: null, proof: 'none', dnssec: { ...NOT_ASKED, mx, [what]: 'failed' } })

/** Looks up a host's addresses, IPv4 first, with DNSSEC on request. */
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
 * Returns the allowed addresses of a host, IPv4 first. If there is no such address, the verdict is `failed` for a
 * permanent reason, otherwise `deferred`.
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
      `${name} has only private addresses (${all[0]}). To send there, add its network to "network.allow_private".`,
      at,
    )
  const failed = answers.filter((answer) => answer.kind === 'failed')
  const unknown = failed.find(({ local }) => local) ?? failed[0]
  if (unknown) return notLookedUp(`the address of ${name}`, unknown, at)
  const text = `${name} has no A or AAAA record.`
  return relay ? waitsForUs(at, `The relay host ${text}`) : ownVerdict('failed', '5.4.4', text, at)
}

/** The verdict if DNS did not answer. If this machine could not send the query, the domain is not to blame (D72). */
function notLookedUp(
  what: string,
  { local, reason }: Extract<ResolverAnswer<unknown>, { kind: 'failed' }>,
  at: Circumstance,
): Verdict {
  const text = `DNS lookup of ${what} failed (${reason}).`
  return local ? waitsForUs(at, text) : ownVerdict('deferred', '4.4.3', text, at)
}
