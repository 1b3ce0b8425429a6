// From a lane to an open SMTP session: its exchangers in order, every address of each, TLS as the sending domain wishes.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { AddressCheck } from '../base/network.ts'
import type { Resolver } from '../base/resolver.ts'
import { openSession, type SmtpSession, type Timeouts, type TlsWish } from '../smtp/client.ts'
import { findAddresses, findHosts, type Host } from '../smtp/route.ts'
import { ownVerdict, type Verdict } from '../smtp/verdict.ts'
import type { Lane } from './lanes.ts'

export interface ConnectDesk {
  clock: Clock
  resolver: Resolver
  allowed: AddressCheck
  config: Pick<Config, 'delivery' | 'hostname'>
  timeouts?: Timeouts | undefined
}

/** A session to the lane's best exchanger that answers; a verdict when there is none. */
export async function connectLane(
  desk: ConnectDesk,
  lane: Lane,
  policy: 'Require' | 'Optional',
): Promise<SmtpSession | Verdict> {
  const hosts = await hostsOf(desk, lane)
  if (!Array.isArray(hosts)) return hosts
  const verdicts: Verdict[] = []
  for (const host of hosts) {
    const addresses = await findAddresses(desk.resolver, host, desk.allowed)
    if (!Array.isArray(addresses)) {
      verdicts.push(addresses)
      continue
    }
    for (const address of addresses) {
      const session = await openHost(desk, host, address, wishOf(policy, host))
      if (!('kind' in session)) return session
      verdicts.push(session)
    }
  }
  return overall(lane.domain, verdicts)
}

async function hostsOf({ clock, config, resolver }: ConnectDesk, lane: Lane): Promise<Host[] | Verdict> {
  const known = lane.routeAt(clock.now())
  if (known) return known
  const { port, routes } = config.delivery
  const hosts = await findHosts({ resolver, routes, port, hostname: config.hostname }, lane.domain)
  if (Array.isArray(hosts)) lane.route = { hosts, at: clock.now() }
  return hosts
}

/** The stricter of what the sending domain and the relay's configuration want. */
function wishOf(policy: 'Require' | 'Optional', { relay }: Host): TlsWish {
  if (policy === 'Require' || relay?.tls === 'required') return 'required'
  return relay?.tls === 'none' ? 'none' : 'optional'
}

async function openHost(desk: ConnectDesk, host: Host, address: string, tls: TlsWish): Promise<SmtpSession | Verdict> {
  const v6 = address.includes(':')
  const options = {
    host: host.name,
    address,
    port: host.port,
    localAddress: desk.config.delivery.source.find((source) => source.includes(':') === v6),
    hostname: desk.config.hostname,
    ...(desk.timeouts ? { timeouts: desk.timeouts } : {}),
  }
  const session = await openSession({ ...options, tls })
  // Opportunistic TLS that cannot be agreed gives way to clear text, on a connection of its own (D18).
  if ('kind' in session && session.stage === 'starttls' && tls === 'optional')
    return openSession({ ...options, tls: 'none' })
  return session
}

/** Temporary unless every exchanger said or is no for good (RFC 5321 §5.1, RFC 7504). */
function overall(domain: string, verdicts: readonly Verdict[]): Verdict {
  const last = verdicts.findLast(({ kind }) => kind === 'deferred') ?? verdicts.at(-1)
  if (!last)
    return ownVerdict('deferred', '4.4.1', `${domain} has no exchanger that could be tried.`, { stage: 'connect' })
  const closed = verdicts.every(({ kind, code }) => kind === 'failed' || code === 521 || code === 556)
  return closed ? last : { ...last, kind: 'deferred' }
}
