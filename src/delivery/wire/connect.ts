// Finds the route to a recipient domain and opens an SMTP session: receiving servers in order, every address of each.
// Of the TLS rules of the sending domain, the recipient's MTA-STS policy and the relay's configuration, the strictest
// applies. The TLSA records of a receiving server (DANE) take precedence.
import { type Clock, MINUTE, SECOND } from '../../base/clock.ts'
import { authoritiesOf, type Config } from '../../base/config.ts'
import { sourcesHere, type SourceAddress } from '../../base/sources.ts'
import { readAuthorities } from '../../base/tls.ts'
import { whyUnread } from '../../base/file-faults.ts'
import { readNamed } from '../../base/plain-file.ts'
import type { Log } from '../../base/log.ts'
import type { AddressCheck } from '../../base/network.ts'
import type { Resolver } from '../../net/resolver.ts'
import { TIMEOUTS, type ConnectOptions, type Timeouts, type Credentials } from '../../smtp/client.ts'
import { allowsHost, parsePolicy, policyId } from '../../smtp/mta-sts.ts'
import {
  askAddresses,
  chooseAddresses,
  findHosts,
  mxNameOf,
  relayHosts,
  type Host,
  type Relay,
  type RouteOptions,
} from '../../smtp/route.ts'
import { NOT_ASKED, writeSecurity } from '../../smtp/security.ts'
import { nameOfPlan, planDane, type DaneAnswer, type DanePlan } from '../../smtp/dane.ts'
import { ownVerdict, waitsForUs, type Verdict } from '../../smtp/verdict.ts'
import type { Store } from '../../store/database.ts'
import { db } from '../../store/query.ts'
import type { RowOf } from '../../store/schema/tables.ts'
import { fetchFile, type FetchDeps } from '../../net/fetch.ts'
import { isSameHost, type HostBalance, type HostPort } from './host-balance.ts'

/** `Session` is an open SMTP session, of this thread or of a worker. */
export interface ConnectDeps<Session> extends Omit<WayDeps, 'home' | 'sts'> {
  /** Orders equal hosts, and remembers which ones failed. Without it, hosts are tried in the order of the route. */
  balance?: HostBalance
  /** The session is for an email whose attempt failed before. */
  isRetry?: boolean
  /** Connects and opens a session, or returns a verdict if that fails. */
  open: (options: ConnectOptions) => Promise<Session | Verdict>
}

export interface WayDeps {
  clock: Clock
  resolver: Resolver
  allowed: AddressCheck
  sts: StsCache
  log: Log
  config: Pick<Config, 'delivery' | 'hostname' | 'tls' | 'webhooks'>
  timeouts?: Timeouts | undefined
  home?: RouteOptions['home']
}

export interface Route {
  /** Best first. */
  hosts: Host[]
  /** MTA-STS mode `enforce`: a valid certificate or no delivery (RFC 8461 §5). */
  enforced: boolean
  at: number
  /** The addresses to connect from, at most one of each family, or undefined for the first of each. */
  sources?: readonly SourceAddress[]
}

/** Finds the route to a domain, or to a relay for it. Returns a verdict if there is none. */
export async function findRoute(
  { clock, config, home, log, resolver, sts }: WayDeps,
  domain: string,
  relay?: Relay,
): Promise<Route | Verdict> {
  const { port, routes } = config.delivery
  const options = { resolver, routes, port, hostname: config.hostname, home }
  const hosts = await (relay ? relayHosts(options, relay) : findHosts(options, domain))
  if (!Array.isArray(hosts)) return hosts
  const at = clock.now()
  // The policy applies to the domain's own receiving servers, not to a relay or our own listener.
  const policy = hosts[0]?.relay || hosts[0]?.address ? undefined : await sts.get(domain)
  if (!policy || policy.mode === 'none') return { hosts, enforced: false, at }
  const named = hosts.filter(({ name }) => allowsHost(policy, name))
  // DANE takes precedence and may still verify a receiving server that the policy does not list (RFC 8461 §2).
  if (policy.mode === 'enforce' && resolver.validated)
    return {
      hosts: hosts.map((host) => (named.includes(host) ? host : { ...host, unlisted: true })),
      enforced: true,
      at,
    }
  if (policy.mode === 'testing') {
    if (named.length < hosts.length)
      log.warn('mta_sts_policy_mismatch', { domain, failed: 'an MX host is not in the policy' })
    return { hosts, enforced: false, at }
  }
  if (named.length > 0) return { hosts: named, enforced: true, at }
  return noneListed(domain)
}

const noneListed = (domain: string): Verdict =>
  ownVerdict('deferred', '4.7.5', `No MX host of ${domain} is in its MTA-STS policy.`, { stage: 'dns' })

export const isVerdict = (answer: object): answer is Verdict => 'kind' in answer

/** A session to the best receiving server that answers, or a verdict if no server does. */
export async function connectAlong<Session extends object>(
  deps: ConnectDeps<Session>,
  domain: string,
  route: Route,
  policy: 'Require' | 'Optional',
): Promise<Session | Verdict> {
  const { clock } = deps
  const balance = route.hosts.length > 1 ? deps.balance : undefined
  const verdicts: Verdict[] = []
  let rest: readonly Host[] = route.hosts
  for (;;) {
    // Other connections may have left out a host since the last one was tried.
    const [host, ...others] = balance?.order(rest, clock.now(), deps.isRetry) ?? rest
    if (!host) break
    rest = others
    const opened = balance?.opens(host, clock.now())
    const session = await connectTo(deps, domain, route, host, policy).finally(opened)
    const results = Array.isArray(session) ? session : []
    // Of MX hosts, only those are left out that cannot be reached: a reply, or TLS, may be about this mail.
    const failed = results.find(({ code, stage }) => host.relay || (code === null && stage !== 'starttls'))
    if (failed) leaveOut(deps, route, host, failed)
    else balance?.works(host)
    if (!Array.isArray(session)) return session
    verdicts.push(...session)
  }
  if (verdicts.length === 0 && route.hosts.some(({ unlisted }) => unlisted)) return noneListed(domain)
  return overall(domain, verdicts)
}

/** A session to one host, or the verdicts of all its addresses. */
async function connectTo<Session extends object>(
  deps: ConnectDeps<Session>,
  domain: string,
  route: Route,
  host: Host,
  policy: 'Require' | 'Optional',
): Promise<Session | Verdict[]> {
  const { addresses, dane } = await lookAt(deps, domain, host)
  if (!Array.isArray(addresses)) return [addresses]
  // Only DANE can verify a receiving server that the policy does not list.
  if (host.unlisted && dane.plan.kind !== 'prove') return []
  const isImpatient = host.relay && route.hosts.length > 1
  const timeouts = { ...(deps.timeouts ?? TIMEOUTS), ...(isImpatient && { greeting: GREETING_OF_RELAY }) }
  const verdicts: Verdict[] = []
  for (const address of addresses) {
    const from = host.address ? undefined : sourceFor(route.sources ?? sourcesHere(deps.config), address)
    const wishing = (): Wish => wishOf(deps, policy, route, host, dane.plan)
    const session = await openHost({ ...deps, timeouts }, host, { address, from }, wishing, dane)
    if (!isVerdict(session)) return session
    verdicts.push(session)
  }
  return verdicts
}

/** Leaves a host out for a while. Returns whether the route has another one that is not left out. */
export function leaveOut(
  { balance, clock, log }: Pick<ConnectDeps<object>, 'balance' | 'clock' | 'log'>,
  { hosts }: Route,
  at: HostPort,
  { cause, text }: Verdict,
): boolean {
  const now = clock.now()
  const host = hosts.find((each) => isSameHost(each, at))
  if (!balance || !host || hosts.length < 2) return false
  if (balance.leaveOut(host, now) && host.relay)
    log.warn('relay_host_left_out', { host: host.name, port: host.port, error: cause ?? text })
  return hosts.some((each) => !balance.isOut(each, now))
}

/**
 * How long (ms) one of several hosts of a relay may be silent before another one is tried. RFC 5321 §4.5.3.2.1 has five
 * minutes, because unknown servers can be slow.
 */
const GREETING_OF_RELAY = 30 * SECOND

const WITHOUT: DaneAnswer = { plan: { kind: 'none' }, dnssec: NOT_ASKED }

/**
 * The addresses of a host and its DANE requirements. Has a verdict instead of addresses if the host cannot be tried.
 */
async function lookAt(
  { allowed, resolver }: Pick<WayDeps, 'allowed' | 'resolver'>,
  domain: string,
  host: Host,
): Promise<{ addresses: string[] | Verdict; dane: DaneAnswer }> {
  const { validated } = resolver
  const answers = await askAddresses(resolver, host)
  const addresses = chooseAddresses(host, answers, allowed)
  const { mx = 'not_queried', name, port, relay } = host
  if (!validated || !Array.isArray(addresses) || host.address || (relay && relay.tls !== 'dane'))
    return { addresses, dane: WITHOUT }
  // A host that is given as an IP address has no records.
  const known = answers.filter((answer) => answer.kind === 'failed' || 'secure' in answer)
  if (known.length < answers.length) return { addresses, dane: WITHOUT }
  const question = { host: name, port, domain: relay ? undefined : domain, mx, addresses: known }
  const dane = await planDane(validated, question)
  return { addresses: dane.plan.kind === 'failed' ? noTlsa(name, dane) : addresses, dane }
}

/**
 * The email is not sent: an attacker who can block the query must not be able to remove the protection (RFC 7672
 * §2.1.2).
 */
function noTlsa(host: string, { dnssec, plan }: DaneAnswer): Verdict {
  const { local = false, reason = '' } = plan.kind === 'failed' ? plan : {}
  const security = writeSecurity({ cipher: null, policy: 'dane', proof: 'none', dnssec })
  const text = `DNS lookup of the TLSA records of ${host} failed (${reason}), so DANE cannot verify the server.`
  const at = { stage: 'dns', host, security } as const
  return local ? waitsForUs(at, text) : ownVerdict('deferred', '4.7.5', text, at)
}

/** Whether an open connection still meets the requirements for mail to a domain: the TLSA records may have changed. */
export async function isStillProven(
  deps: WayDeps,
  domain: string,
  { hosts }: Route,
  session: HostPort & { plan: string },
): Promise<boolean> {
  const host = hosts.find((each) => isSameHost(each, session))
  if (!host || (!deps.resolver.validated && session.plan === '')) return true
  const { dane } = await lookAt(deps, domain, host)
  return nameOfPlan(dane.plan) === session.plan
}

/** The source of the same family as a receiving server's address. */
const sourceFor = (sources: readonly SourceAddress[], to: string): SourceAddress | undefined =>
  sources.find(({ family }) => (family === 6) === to.includes(':'))

type Wish = Pick<ConnectOptions, 'tls' | 'verify' | 'policy'>

/** The TLS settings for a host. Throws if the file of further authorities cannot be read. */
function wishOf(
  { config }: Pick<WayDeps, 'config'>,
  policy: 'Require' | 'Optional',
  { enforced }: Route,
  { relay }: Host,
  plan: DanePlan,
): Wish {
  // DANE takes precedence over an MTA-STS policy.
  if (plan.kind === 'prove') return { tls: 'required', verify: { dane: plan.proof }, policy: 'dane' }
  // Credentials are sent only to a relay whose name is verified.
  if (enforced || (relay && relay.tls !== 'none' && relay.username !== '')) {
    const verify = { authorities: readAuthorities(authoritiesOf(config)) }
    return { tls: 'required', verify, policy: enforced ? 'sts' : 'required' }
  }
  const asked = relay?.tls === 'required' || relay?.tls === 'dane'
  if (plan.kind === 'encrypt' || policy === 'Require' || asked) return { tls: 'required', policy: 'required' }
  return relay?.tls === 'none' ? { tls: 'none', policy: 'none' } : { tls: 'optional', policy: 'optional' }
}

async function openHost<Session extends object>(
  deps: ConnectDeps<Session>,
  host: Host,
  { address, from }: { address: string; from: SourceAddress | undefined },
  wishing: () => Wish,
  { dnssec, plan }: DaneAnswer,
): Promise<Session | Verdict> {
  let wish: Wish
  try {
    wish = wishing()
  } catch (thrown) {
    return waitsForUs({ stage: 'connect', host: host.name }, `"tls.ca_file" cannot be read (${whyUnread(thrown)}).`)
  }
  const credentials = credentialsOf(host)
  if (typeof credentials === 'string') return waitsForUs({ stage: 'auth', host: host.name }, credentials)
  const options = {
    host: host.name,
    address,
    port: host.port,
    localAddress: from?.address,
    hostname: from?.hostname ?? deps.config.hostname,
    credentials,
    timeouts: deps.timeouts,
    dnssec,
    plan: nameOfPlan(plan),
  }
  const session = of(from, await deps.open({ ...options, ...wish }))
  // If opportunistic TLS fails, the email is sent in clear text on a new connection (D18).
  if (isVerdict(session) && session.stage === 'starttls' && wish.tls === 'optional')
    return of(from, await deps.open({ ...options, tls: 'none', policy: 'optional' }))
  return session
}

/** Adds the source to a verdict. */
const of = <Session extends object>(from: SourceAddress | undefined, session: Session | Verdict): Session | Verdict =>
  from && isVerdict(session) ? { ...session, source: from.address } : session

/**
 * The credentials of a relay, or an error message if its password file cannot be read, or if a false DNS answer could
 * have named the host.
 */
function credentialsOf({ mx, name, relay }: Host): Credentials | string | undefined {
  if (!relay || relay.username === '') return undefined
  const domain = mxNameOf(relay)
  if (domain !== undefined && mx !== 'secure' && !`.${name.toLowerCase()}`.endsWith(`.${domain}`))
    return `Credentials are not sent to ${name}: it is not below ${domain}, whose MX record is not signed (DNSSEC). List the hosts of the relay in "hosts".`
  try {
    return { username: relay.username, password: readNamed(relay.password_file).toString().trim() }
  } catch (thrown) {
    return `The password file of the relay ${name} cannot be read (${whyUnread(thrown)}).`
  }
}

/**
 * Combines the verdicts of all receiving servers: temporary unless every verdict is permanent
 * (RFC 5321 §5.1, RFC 7504).
 */
function overall(domain: string, verdicts: readonly Verdict[]): Verdict {
  const local = verdicts.find(({ kind }) => kind === 'waiting')
  if (local) return local
  const last = verdicts.findLast(({ kind }) => kind === 'deferred') ?? verdicts.at(-1)
  if (!last)
    return ownVerdict('deferred', '4.4.1', `No receiving server of ${domain} could be tried.`, { stage: 'connect' })
  const closed = verdicts.every(({ kind, code }) => kind === 'failed' || code === 521 || code === 556)
  return closed ? last : { ...last, kind: 'deferred' }
}

// The MTA-STS policies of recipient domains, kept in the store until they expire (RFC 8461 §5.1). A known policy counts
// even when its TXT record is gone or its server is down: an attacker who blocks DNS must not remove the protection.

export interface StsDeps {
  store: Store
  clock: Clock
  resolver: Resolver
  fetching: FetchDeps
  log: Log
  /** Port of policy servers: 443, except in tests. */
  httpsPort?: number | undefined
}

export interface KnownPolicy {
  mode: 'enforce' | 'testing' | 'none'
  mx: string[]
}

const TIMEOUT = 60 * SECOND
const MAX_POLICY = 64 * 1024
/** A policy server that does not answer is not queried again for this time. */
const PATIENCE = 5 * MINUTE
const MAX_FAILED = 10_000

const known = (row: RowOf<'sts_policies'> | undefined): KnownPolicy | undefined =>
  row && { mode: row.mode, mx: JSON.parse(row.mx) as string[] }

export class StsCache {
  readonly #deps: StsDeps
  /** When a domain's policy server last failed. */
  readonly #failedAt = new Map<string, number>()

  constructor(deps: StsDeps) {
    this.#deps = deps
  }

  /** The policy of a domain now, or undefined if it has none that is valid. */
  async get(domain: string): Promise<KnownPolicy | undefined> {
    const { clock, resolver, store } = this.#deps
    const kept = store.first(
      db.selectFrom('sts_policies').selectAll().where('domain', '=', domain).where('expires_at', '>', clock.now()),
    )
    const answer = await resolver.txt(`_mta-sts.${domain}`)
    const id = answer.kind === 'found' ? policyId(answer.records) : undefined
    if (id === undefined || kept?.id === id) return known(kept)
    return known((await this.#fetch(domain, id)) ?? kept)
  }

  async #fetch(domain: string, id: string): Promise<RowOf<'sts_policies'> | undefined> {
    const { clock, fetching, log, store, httpsPort = 443 } = this.#deps
    const now = clock.now()
    if (now - (this.#failedAt.get(domain) ?? -Infinity) < PATIENCE) return undefined
    const port = httpsPort === 443 ? '' : `:${httpsPort}`
    const url = `https://mta-sts.${domain}${port}/.well-known/mta-sts.txt`
    const fetched = await fetchFile(fetching, url, { timeout: TIMEOUT, maxBytes: MAX_POLICY, redirects: 0 })
    const plain = 'bytes' in fetched && /^text\/plain\b/i.test(fetched.contentType ?? '')
    const policy = plain ? parsePolicy(fetched.bytes.toString()) : undefined
    if (!policy) {
      if (this.#failedAt.size > MAX_FAILED) this.#failedAt.clear()
      this.#failedAt.set(domain, now)
      const reason = 'refused' in fetched ? `it ${fetched.refused}` : 'it is not a policy'
      log.warn('mta_sts_policy_unusable', { domain, reason })
      return undefined
    }
    const row = {
      domain,
      id,
      mode: policy.mode,
      mx: JSON.stringify(policy.mx),
      fetched_at: now,
      expires_at: now + policy.maxAge * SECOND,
    }
    await store.write((tx) => tx.run(db.replaceInto('sts_policies').values(row)))
    return row
  }
}
