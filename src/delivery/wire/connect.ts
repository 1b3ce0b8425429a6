// Finds the route to a recipient domain and opens an SMTP session: exchangers in order, every address of each. Of the
// TLS rules of the sending domain, the recipient's MTA-STS policy and the relay's configuration, the strictest counts;
// the TLSA records of an exchanger (DANE) go before them.
import type { Clock } from '../../base/clock.ts'
import { authoritiesOf, type Config } from '../../base/config.ts'
import { sourcesOf, type SourceAddress } from '../../base/sources.ts'
import { readAuthorities } from '../../base/tls.ts'
import { whyUnread } from '../../base/file-faults.ts'
import { readNamed } from '../../base/plain-file.ts'
import type { Log } from '../../base/log.ts'
import type { AddressCheck } from '../../base/network.ts'
import type { Resolver } from '../../net/resolver.ts'
import type { ConnectOptions, Timeouts } from '../../smtp/client.ts'
import type { Credentials } from '../../smtp/sign-in.ts'
import { allowsHost } from '../../smtp/mta-sts.ts'
import { askAddresses, chooseAddresses, findHosts, type Host, type Relay, type RouteOptions } from '../../smtp/route.ts'
import { NOT_ASKED, writeSecurity } from '../../smtp/security.ts'
import { nameOfPlan, planDane, type DaneAnswer, type DanePlan } from '../../smtp/tlsa.ts'
import { ownVerdict, waitsForUs, type Verdict } from '../../smtp/verdict.ts'
import type { StsCache } from './sts.ts'

/** `Session` is an open SMTP session, of this thread or of a worker. */
export interface ConnectDeps<Session> extends WayDeps {
  /** Connects and opens a session; a verdict when that fails. */
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
  /** The addresses to connect from, one of each family at most; undefined: the first of each. */
  sources?: readonly SourceAddress[]
}

/** Finds the route to a domain; a verdict when there is none. */
export async function findRoute(
  { clock, config, home, log, resolver, sts }: WayDeps,
  domain: string,
): Promise<Route | Verdict> {
  const { port, routes } = config.delivery
  const hosts = await findHosts({ resolver, routes, port, hostname: config.hostname, home }, domain)
  if (!Array.isArray(hosts)) return hosts
  const at = clock.now()
  // The policy is about the domain's own exchangers, not about a relay or our own listener.
  const policy = hosts[0]?.relay || hosts[0]?.address ? undefined : await sts.get(domain)
  if (!policy || policy.mode === 'none') return { hosts, enforced: false, at }
  const named = hosts.filter(({ name }) => allowsHost(policy, name))
  // An exchanger that the policy does not name may still be proven by DANE, which goes first (RFC 8461 §2).
  if (policy.mode === 'enforce' && resolver.validated)
    return {
      hosts: hosts.map((host) => (named.includes(host) ? host : { ...host, unlisted: true })),
      enforced: true,
      at,
    }
  if (policy.mode === 'testing') {
    if (named.length < hosts.length)
      log.warn('mta-sts testing', { domain, failed: 'an exchanger is not in the policy' })
    return { hosts, enforced: false, at }
  }
  if (named.length > 0) return { hosts: named, enforced: true, at }
  return noneListed(domain)
}

const noneListed = (domain: string): Verdict =>
  ownVerdict('deferred', '4.7.5', `No exchanger of ${domain} is one that its MTA-STS policy names.`, { stage: 'dns' })

/** The route to a relay, whatever the recipient domain. */
export const routeBy = (relay: Relay, at: number): Route => ({
  hosts: [{ name: relay.host, port: relay.port, relay }],
  enforced: false,
  at,
})

export const isVerdict = (answer: object): answer is Verdict => 'kind' in answer

/** A session to the best exchanger that answers; a verdict when there is none. */
export async function connectAlong<Session extends object>(
  deps: ConnectDeps<Session>,
  domain: string,
  route: Route,
  policy: 'Require' | 'Optional',
): Promise<Session | Verdict> {
  const verdicts: Verdict[] = []
  for (const host of route.hosts) {
    const { addresses, dane } = await lookAt(deps, domain, host)
    if (!Array.isArray(addresses)) {
      verdicts.push(addresses)
      continue
    }
    // Only DANE can prove an exchanger that the policy does not name.
    if (host.unlisted && dane.plan.kind !== 'prove') continue
    for (const address of addresses) {
      const from = host.address ? undefined : sourceFor(route.sources ?? sourcesOf(deps.config), address)
      const wishing = (): Wish => wishOf(deps, policy, route, host, dane.plan)
      const session = await openHost(deps, host, { address, from }, wishing, dane)
      if (!isVerdict(session)) return session
      verdicts.push(session)
    }
  }
  if (verdicts.length === 0 && route.hosts.some(({ unlisted }) => unlisted)) return noneListed(domain)
  return overall(domain, verdicts)
}

const WITHOUT: DaneAnswer = { plan: { kind: 'none' }, dnssec: NOT_ASKED }

/** The addresses of a host, and what DANE asks for there; a verdict instead of addresses when it cannot be tried. */
async function lookAt(
  { allowed, resolver }: WayDeps,
  domain: string,
  host: Host,
): Promise<{ addresses: string[] | Verdict; dane: DaneAnswer }> {
  const { validated } = resolver
  const answers = await askAddresses(resolver, host)
  const addresses = chooseAddresses(host, answers, allowed)
  const { mx = 'not_asked', name, port, relay } = host
  if (!validated || !Array.isArray(addresses) || host.address || (relay && relay.tls !== 'dane'))
    return { addresses, dane: WITHOUT }
  // A host that is given by its address has no records.
  const known = answers.filter((answer) => answer.kind === 'failed' || 'secure' in answer)
  if (known.length < answers.length) return { addresses, dane: WITHOUT }
  const question = { host: name, port, domain: relay ? undefined : domain, mx, addresses: known }
  const dane = await planDane(validated, question)
  return { addresses: dane.plan.kind === 'failed' ? noTlsa(name, dane) : addresses, dane }
}

/** Nothing is sent: whoever can stop the question must not be able to stop the protection (RFC 7672 §2.1.2). */
function noTlsa(host: string, { dnssec, plan }: DaneAnswer): Verdict {
  const { local = false, reason = '' } = plan.kind === 'failed' ? plan : {}
  const security = writeSecurity({ cipher: null, policy: 'dane', proof: 'none', dnssec })
  const text = `The TLSA records of ${host} could not be looked up (${reason}), so that nothing proves it (DANE).`
  const at = { stage: 'dns', host, security } as const
  return local ? waitsForUs(at, text) : ownVerdict('deferred', '4.7.5', text, at)
}

/** Whether an open connection is what a mail to a domain would get now: the TLSA records may be others by now. */
export async function isStillProven(
  deps: WayDeps,
  domain: string,
  { hosts }: Route,
  { host: name, plan }: { host: string; plan: string },
): Promise<boolean> {
  const host = hosts.find((each) => each.name === name)
  if (!host || (!deps.resolver.validated && plan === '')) return true
  const { dane } = await lookAt(deps, domain, host)
  return nameOfPlan(dane.plan) === plan
}

/** The source of the same family as an exchanger's address. */
const sourceFor = (sources: readonly SourceAddress[], to: string): SourceAddress | undefined =>
  sources.find(({ family }) => (family === 6) === to.includes(':'))

type Wish = Pick<ConnectOptions, 'tls' | 'verify' | 'policy'>

/** The TLS settings for a host. Throws when the file of further authorities cannot be read. */
function wishOf(
  { config }: WayDeps,
  policy: 'Require' | 'Optional',
  { enforced }: Route,
  { relay }: Host,
  plan: DanePlan,
): Wish {
  // DANE decides alone, whatever an MTA-STS policy says.
  if (plan.kind === 'prove') return { tls: 'required', verify: { dane: plan.proof }, policy: 'dane' }
  // Credentials go only to a relay that proves its name.
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
    return waitsForUs({ stage: 'connect', host: host.name }, `tls.ca_file cannot be read (${whyUnread(thrown)}).`)
  }
  const credentials = credentialsOf(host.relay)
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
  // When opportunistic TLS fails, the mail goes in clear text on a new connection (D18).
  if (isVerdict(session) && session.stage === 'starttls' && wish.tls === 'optional')
    return of(from, await deps.open({ ...options, tls: 'none', policy: 'optional' }))
  return session
}

/** A verdict names the source that it is about. */
const of = <Session extends object>(from: SourceAddress | undefined, session: Session | Verdict): Session | Verdict =>
  from && isVerdict(session) ? { ...session, source: from.address } : session

/** The credentials of a relay; a sentence when its password file cannot be read. */
function credentialsOf(relay: Relay | undefined): Credentials | string | undefined {
  if (!relay || relay.username === '') return undefined
  try {
    return { username: relay.username, password: readNamed(relay.password_file).toString().trim() }
  } catch (thrown) {
    return `The password file of the relay ${relay.host} cannot be read (${whyUnread(thrown)}).`
  }
}

/**
 * Combines the verdicts of all exchangers: temporary unless every verdict is permanent (RFC 5321 §5.1, RFC 7504).
 */
function overall(domain: string, verdicts: readonly Verdict[]): Verdict {
  const local = verdicts.find(({ kind }) => kind === 'waiting')
  if (local) return local
  const last = verdicts.findLast(({ kind }) => kind === 'deferred') ?? verdicts.at(-1)
  if (!last)
    return ownVerdict('deferred', '4.4.1', `${domain} has no exchanger that could be tried.`, { stage: 'connect' })
  const closed = verdicts.every(({ kind, code }) => kind === 'failed' || code === 521 || code === 556)
  return closed ? last : { ...last, kind: 'deferred' }
}
