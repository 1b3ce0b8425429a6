// Finds the route to a recipient domain and opens an SMTP session: exchangers in order, every address of each. Of the
// TLS rules of the sending domain, the recipient's MTA-STS policy and the relay's configuration, the strictest counts.
import { readFileSync } from 'node:fs'
import type { Clock } from '../../base/clock.ts'
import { authoritiesOf, type Config } from '../../base/config.ts'
import { readAuthorities } from '../../base/tls.ts'
import { codeOf } from '../../base/errors.ts'
import type { Log } from '../../base/log.ts'
import type { AddressCheck } from '../../base/network.ts'
import type { Resolver } from '../../net/resolver.ts'
import type { ConnectOptions, Timeouts } from '../../smtp/client.ts'
import type { Credentials } from '../../smtp/sign-in.ts'
import { allowsHost } from '../../smtp/mta-sts.ts'
import { findAddresses, findHosts, type Host, type Relay, type RouteOptions } from '../../smtp/route.ts'
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
  if (policy.mode === 'testing') {
    if (named.length < hosts.length)
      log.warn('mta-sts testing', { domain, failed: 'an exchanger is not in the policy' })
    return { hosts, enforced: false, at }
  }
  if (named.length > 0) return { hosts: named, enforced: true, at }
  const text = `No exchanger of ${domain} is one that its MTA-STS policy names.`
  return ownVerdict('deferred', '4.7.5', text, { stage: 'dns' })
}

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
    const addresses = await findAddresses(deps.resolver, host, deps.allowed)
    if (!Array.isArray(addresses)) {
      verdicts.push(addresses)
      continue
    }
    for (const address of addresses) {
      const session = await openHost(deps, host, address, () => wishOf(deps, policy, route, host))
      if (!isVerdict(session)) return session
      verdicts.push(session)
    }
  }
  return overall(domain, verdicts)
}

type Wish = Pick<ConnectOptions, 'tls' | 'verify'>

/** The TLS settings for a host. Throws when the file of further authorities cannot be read. */
function wishOf({ config }: WayDeps, policy: 'Require' | 'Optional', { enforced }: Route, { relay }: Host): Wish {
  // Credentials go only to a relay that proves its name.
  if (enforced || (relay && relay.tls !== 'none' && relay.username !== '')) {
    return { tls: 'required', verify: { authorities: readAuthorities(authoritiesOf(config)) } }
  }
  if (policy === 'Require' || relay?.tls === 'required') return { tls: 'required' }
  return { tls: relay?.tls === 'none' ? 'none' : 'optional' }
}

async function openHost<Session extends object>(
  deps: ConnectDeps<Session>,
  host: Host,
  address: string,
  wishing: () => Wish,
): Promise<Session | Verdict> {
  let wish: Wish
  try {
    wish = wishing()
  } catch (thrown) {
    return waitsForUs({ stage: 'connect', host: host.name }, `tls.ca_file cannot be read (${codeOf(thrown)}).`)
  }
  const v6 = address.includes(':')
  const credentials = credentialsOf(host.relay)
  if (typeof credentials === 'string') return waitsForUs({ stage: 'auth', host: host.name }, credentials)
  const options = {
    host: host.name,
    address,
    port: host.port,
    localAddress: host.address ? undefined : deps.config.delivery.source.find((source) => source.includes(':') === v6),
    hostname: deps.config.hostname,
    credentials,
    timeouts: deps.timeouts,
  }
  const session = await deps.open({ ...options, ...wish })
  // When opportunistic TLS fails, the mail goes in clear text on a new connection (D18).
  if (isVerdict(session) && session.stage === 'starttls' && wish.tls === 'optional')
    return deps.open({ ...options, tls: 'none' })
  return session
}

/** The credentials of a relay; a sentence when its password file cannot be read. */
function credentialsOf(relay: Relay | undefined): Credentials | string | undefined {
  if (!relay || relay.username === '') return undefined
  try {
    return { username: relay.username, password: readFileSync(relay.password_file, 'utf8').trim() }
  } catch (thrown) {
    return `The password file of the relay ${relay.host} cannot be read (${codeOf(thrown)}).`
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
