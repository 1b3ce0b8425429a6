// Finders of the network: outgoing and incoming port 25, the addresses of clients, SPF of the EHLO name.
import { SECOND, type Clock } from '../base/clock.ts'
import { hostsOf, type Config } from '../base/config.ts'
import { BEHIND_NAT, defaultGateway, inContainer } from '../base/container.ts'
import { must } from '../base/errors.ts'
import { silentLog } from '../base/log.ts'
import { formatEndpoint, isPublic } from '../base/network.ts'
import { connectAlong } from '../delivery/wire/connect.ts'
import type { Resolver } from '../net/resolver.ts'
import { knownSendingAddresses, type SendingAddress } from '../net/sending-addresses.ts'
import { heloSpf } from '../inbound/helo-spf.ts'
import { openSession, TIMEOUTS, type SmtpSession } from '../smtp/client.ts'
import { findAddresses, findHosts, relayHosts, type Relay } from '../smtp/route.ts'
import type { Verdict } from '../smtp/verdict.ts'
import { db } from '../store/query.ts'
import { fail, ok, unanswered, warn, type Finder, type Finding } from '../parts/findings/finding.ts'

interface NetworkDeps {
  config: Config
  resolver: Resolver
}

const PATIENCE = 10 * SECOND
const TIMES = { ...TIMEOUTS, connect: PATIENCE, greeting: PATIENCE, command: PATIENCE }

/** How many received messages are checked, and how many are needed for a result. */
const LOOKED_AT = 100
const FEW = 5

function greet(config: Config, host: string, address: string, port: number): Promise<SmtpSession | Verdict> {
  return openSession({ host, address, port, hostname: config.hostname, tls: 'optional', timeouts: TIMES })
}

/**
 * Checks whether email can be sent: to the configured relay, or to the MX hosts of a large provider. Also returns the
 * address of this server that the receiving server reports.
 */
export async function portOut(deps: NetworkDeps, probe: string): Promise<{ finding: Finding; seenAs?: string }> {
  const { config, resolver } = deps
  const id = `port ${config.delivery.port} out`
  const { port, routes } = config.delivery
  const hosts = await findHosts({ resolver, routes, port, hostname: config.hostname }, probe)
  if (!Array.isArray(hosts))
    return {
      finding: fail(
        id,
        hosts.cause ?? hosts.text,
        'Check that DNS works ("dns.servers", /etc/resolv.conf), or use another domain with --probe.',
      ),
    }
  let last = ''
  for (const host of hosts.slice(0, 2)) {
    const addresses = await findAddresses(resolver, host, () => true)
    for (const address of Array.isArray(addresses) ? addresses.slice(0, 2) : []) {
      const session = await greet(config, host.name, address, host.port)
      if (!('kind' in session)) {
        void session.quit()
        const finding = ok(id, `${host.name} (${address}) accepts connections`)
        // A relay sees another address than receiving servers do.
        const seenAs = routes.length > 0 ? undefined : session.seenAs
        return { finding, ...(seenAs !== undefined && { seenAs }) }
      }
      last = `${host.name} (${address}): ${session.text}`
    }
    if (!Array.isArray(addresses)) last = addresses.cause ?? addresses.text
  }
  return {
    finding: fail(
      id,
      last,
      'Most hosting providers block port 25 by default. Ask yours to open it, or send through a relay ([[delivery.routes]]).',
    ),
  }
}

/** Checks each host of a relay: connection, TLS and credentials, as for email. */
export async function relayFinding(deps: NetworkDeps & { clock: Clock }, relay: Relay): Promise<Finding> {
  const { config, resolver } = deps
  const names = hostsOf(relay).map(({ host }) => host)
  const id = `relay ${relay.name || names.join(', ')}`
  const fix = 'Fix the host, or correct its route in [[delivery.routes]].'
  const hosts = await relayHosts({ resolver, hostname: config.hostname }, relay)
  if (!Array.isArray(hosts)) return fail(id, hosts.cause ?? hosts.text, fix)
  const connecting = { ...deps, allowed: () => true, log: silentLog, timeouts: TIMES, open: openSession }
  const results = await Promise.all(
    hosts.map(async (host) => {
      const route = { hosts: [host], enforced: false, at: 0 }
      const session = await connectAlong(connecting, '', route, 'Optional')
      if ('kind' in session) return `${formatEndpoint(host.name, host.port)}: ${session.cause ?? session.text}`
      void session.quit()
      return undefined
    }),
  )
  const failed = results.filter((text) => text !== undefined)
  if (failed.length === 0)
    return ok(id, hosts.length === 1 ? `${hosts[0]?.name} accepts email` : `all ${hosts.length} hosts accept email`)
  const some = hosts.length === 1 ? '' : `${failed.length} of ${hosts.length} hosts cannot be used: `
  const summary = some + failed.join(' ')
  return failed.length < hosts.length ? warn(id, summary, fix) : fail(id, summary, fix)
}

/** Checks whether the listener accepts connections, locally and at its public address. */
export async function portIn({ config, resolver }: NetworkDeps): Promise<Finding> {
  const id = 'port 25 in'
  const listening = config.smtp.listen.find(({ port }) => port !== 0)
  if (!listening) return warn(id, '"smtp.listen" has no fixed port', 'Set "smtp.listen" to ["0.0.0.0:25"].')
  const local = { '0.0.0.0': '127.0.0.1', '::': '::1' }[listening.host] ?? listening.host
  const near = await greet(config, config.hostname, local, listening.port)
  if ('kind' in near)
    return warn(
      id,
      `no response from ${formatEndpoint(local, listening.port)}: ${near.text}`,
      'Start the server: "systemctl start postrider", or "postrider serve" without systemd.',
    )
  void near.quit()
  const answer = await resolver.a(config.hostname)
  if (answer.kind === 'failed') return unanswered(id, config.hostname)
  const [address] = answer.kind === 'found' ? answer.records : []
  const shown = formatEndpoint(local, listening.port)
  if (address === undefined)
    return warn(
      id,
      `${shown} accepts connections, but ${config.hostname} has no address`,
      `Publish an A record for ${config.hostname}.`,
    )
  const outside = formatEndpoint(address, config.delivery.port)
  const far = await greet(config, config.hostname, address, config.delivery.port)
  if ('kind' in far)
    return warn(
      id,
      `${shown} accepts connections, but ${outside} does not (tested from here)`,
      'Open port 25 in the firewall and forward it to this server. Test it from another machine: "swaks --to postmaster@YOUR-DOMAIN --quit-after RCPT".',
    )
  void far.quit()
  return ok(id, `${shown} and ${outside} accept connections`)
}

/** RFC 7208 §2.3: bounces have no sender, so SPF is checked for each name in EHLO. */
export async function heloSpfFinding(deps: NetworkDeps): Promise<Finding> {
  const own = await knownSendingAddresses(deps.config, deps.resolver)
  const names = new Set([deps.config.hostname.toLowerCase(), ...(own ?? []).map(({ hostname }) => hostname)])
  const findings = await Promise.all([...names].map((name) => spfOfName(deps, name, own)))
  return findings.find(({ severity }) => severity !== 'ok') ?? must(findings[0], 'The name in EHLO')
}

async function spfOfName(
  { resolver }: NetworkDeps,
  hostname: string,
  own: readonly SendingAddress[] | undefined,
): Promise<Finding> {
  const id = 'SPF of HELO'
  const record = `${hostname}. TXT "v=spf1 a -all"`
  const answer = await resolver.txt(hostname)
  const found = answer.kind === 'found' ? answer.records.filter((text) => /^v=spf1(?: |$)/i.test(text)) : []
  if (answer.kind === 'failed') return warn(id, `DNS did not answer (${answer.reason})`, 'Try again later.')
  const [published, another] = found
  if (published === undefined) return warn(id, `${hostname} has no SPF record`, `Publish ${record}`)
  if (another !== undefined)
    return fail(
      id,
      `${hostname} has ${found.length} SPF records`,
      'Keep only one, because receiving servers treat several as an error.',
    )
  if (own === undefined) return unanswered(id, hostname)
  const addresses = own.filter((source) => source.hostname === hostname).map(({ address }) => address)
  const verdicts = await Promise.all(
    addresses.map(async (address) => ({ address, result: await heloSpf(resolver, hostname, address) })),
  )
  const failing = verdicts.filter(({ result }) => result !== 'pass')
  return failing.length > 0
    ? fail(id, failing.map(({ address, result }) => `${result} for ${address}`).join('; '), `Publish ${record}`)
    : ok(id, published)
}

/** Returns the finding about the client addresses of received messages. */
export const clientFindings = (clients: readonly string[], gateway: string): Finding[] =>
  clients.length < FEW || clients.some((client) => client !== gateway)
    ? []
    : [warn('clients', `${BEHIND_NAT.detail} (${gateway})`, BEHIND_NAT.fix)]

/** Whether the address that a receiving server saw is one whose PTR record is checked. */
export async function addressOut(deps: NetworkDeps, seen: string | undefined): Promise<Finding[]> {
  if (seen === undefined || !isPublic(seen)) return []
  const own = await knownSendingAddresses(deps.config, deps.resolver)
  const known = (own ?? []).map(({ address }) => address)
  if (own === undefined || known.includes(seen)) return []
  const { hostname } = deps.config
  return [
    fail(
      'address out',
      `email leaves from ${seen}, but ${hostname} resolves to ${known.join(', ') || 'no address'}`,
      `Send from the address of ${hostname} ("delivery.source", or the host network in a container), or publish ${seen} for ${hostname} and set its PTR record.`,
    ),
  ]
}

export const networkFinders: readonly Finder[] = [
  {
    runs: 'doctor',
    find({ store }) {
      const gateway = inContainer() ? defaultGateway() : undefined
      if (!store || gateway === undefined) return []
      const newest = db.selectFrom('inbound_messages').select('client').orderBy('key', 'desc').limit(LOOKED_AT)
      return clientFindings(
        store.all(newest).map(({ client }) => client),
        gateway,
      )
    },
  },
  {
    runs: 'doctor',
    async find({ doctor, ...deps }) {
      if (!doctor) return []
      const { finding, seenAs } = await portOut(deps, doctor.probe)
      return [finding, ...(await addressOut(deps, seenAs))]
    },
  },
  {
    runs: 'doctor',
    find: (deps) => Promise.all(deps.config.delivery.routes.map((relay) => relayFinding(deps, relay))),
  },
  { runs: 'doctor', find: async (deps) => [await portIn(deps)] },
  {
    runs: 'background',
    effect: 'The SPF record of this server is wrong: its bounce messages may be rejected.',
    find: async (deps) => [await heloSpfFinding(deps)],
  },
]
