// Checks of `postrider doctor` for the network: the mail port outwards and inwards, SPF of the HELO name.
import { SECOND } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { must } from '../base/errors.ts'
import { formatEndpoint } from '../base/network.ts'
import type { Resolver } from '../net/resolver.ts'
import { heloSpf } from '../inbound/helo-spf.ts'
import { openSession, TIMEOUTS, type SmtpSession } from '../smtp/client.ts'
import { findAddresses, findHosts } from '../smtp/route.ts'
import type { Verdict } from '../smtp/verdict.ts'
import { watchedSources, type WatchedSource } from '../watch/subjects.ts'
import { bad, unasked, warn, well, type Finding } from './doctor-machine.ts'

export interface World {
  config: Config
  resolver: Resolver
}

const PATIENCE = 10 * SECOND

function greet(config: Config, host: string, address: string, port: number): Promise<SmtpSession | Verdict> {
  const { connect, greeting } = { connect: PATIENCE, greeting: PATIENCE }
  const timeouts = { ...TIMEOUTS, connect, greeting, command: PATIENCE }
  return openSession({ host, address, port, hostname: config.hostname, tls: 'optional', timeouts })
}

/**
 * Whether mail can be sent: to the configured relay, else to the exchangers of a large provider; and the address of
 * ours that the exchanger names.
 */
export async function judgeWayOut(world: World, probe: string): Promise<{ finding: Finding; seenAs?: string }> {
  const { config, resolver } = world
  const check = `port ${config.delivery.port} out`
  const { port, routes } = config.delivery
  const hosts = await findHosts({ resolver, routes, port, hostname: config.hostname }, probe)
  if (!Array.isArray(hosts))
    return {
      finding: bad(
        check,
        hosts.text,
        'See that DNS works ("dns.servers", /etc/resolv.conf), or name another domain with --probe.',
      ),
    }
  let last = ''
  for (const host of hosts.slice(0, 2)) {
    const addresses = await findAddresses(resolver, host, () => true)
    for (const address of Array.isArray(addresses) ? addresses.slice(0, 2) : []) {
      const session = await greet(config, host.name, address, host.port)
      if (!('kind' in session)) {
        void session.quit()
        const finding = well(check, `${host.name} (${address}) answers`)
        // A relay sees an address that receivers do not.
        const seenAs = routes.length > 0 ? undefined : session.seenAs
        return { finding, ...(seenAs !== undefined && { seenAs }) }
      }
      last = `${host.name} (${address}): ${session.text}`
    }
    if (!Array.isArray(addresses)) last = addresses.text
  }
  return {
    finding: bad(
      check,
      last,
      'Most clouds close port 25 until one asks: open a ticket there, or send through a relay ([[delivery.routes]]).',
    ),
  }
}

/** Whether the listener answers, locally and at its public address. */
export async function judgeWayIn({ config, resolver }: World): Promise<Finding> {
  const check = 'port 25 in'
  const listening = config.smtp.listen.find(({ port }) => port !== 0)
  if (!listening) return warn(check, 'smtp.listen names no fixed port', 'Set "smtp.listen" to ["0.0.0.0:25"].')
  const local = { '0.0.0.0': '127.0.0.1', '::': '::1' }[listening.host] ?? listening.host
  const near = await greet(config, config.hostname, local, listening.port)
  if ('kind' in near)
    return warn(
      check,
      `nothing answers at ${formatEndpoint(local, listening.port)}: ${near.text}`,
      'Start it: "systemctl start postrider" where it is installed, else "postrider serve".',
    )
  void near.quit()
  const answer = await resolver.a(config.hostname)
  if (answer.kind === 'failed') return unasked(check, config.hostname)
  const [address] = answer.kind === 'found' ? answer.records : []
  const shown = formatEndpoint(local, listening.port)
  if (address === undefined)
    return warn(
      check,
      `${shown} answers; ${config.hostname} has no address`,
      `Publish an A record for ${config.hostname}.`,
    )
  const far = await greet(config, config.hostname, address, 25)
  if ('kind' in far)
    return warn(
      check,
      `${shown} answers; ${address}:25 does not from here`,
      'Open port 25 in the firewall, and lead it to the listener; from another machine: "swaks --to postmaster@YOUR-DOMAIN --quit-after RCPT".',
    )
  void far.quit()
  return well(check, `${shown} and ${address}:25 answer`)
}

/**
 * The addresses that mail leaves from, with the name of each in EHLO; undefined when DNS gave none and did not answer
 * completely.
 */
export async function ownSources({ config, resolver }: World): Promise<WatchedSource[] | undefined> {
  const { silent, sources } = await watchedSources(config, resolver)
  return silent && sources.length === 0 ? undefined : sources
}

/** RFC 7208 §2.3: bounces have no sender, so SPF is checked for each name that is said in EHLO. */
export async function judgeHeloSpf(world: World): Promise<Finding> {
  const own = await ownSources(world)
  const names = new Set([world.config.hostname.toLowerCase(), ...(own ?? []).map(({ hostname }) => hostname)])
  const findings = await Promise.all([...names].map((name) => judgeName(world, name, own)))
  return findings.find(({ status }) => status !== 'ok') ?? must(findings[0], 'The name in EHLO')
}

async function judgeName(
  { resolver }: World,
  hostname: string,
  own: readonly WatchedSource[] | undefined,
): Promise<Finding> {
  const check = 'SPF of HELO'
  const record = `${hostname}. TXT "v=spf1 a -all"`
  const answer = await resolver.txt(hostname)
  const found = answer.kind === 'found' ? answer.records.filter((text) => /^v=spf1(?: |$)/i.test(text)) : []
  if (answer.kind === 'failed') return warn(check, `DNS did not answer (${answer.reason})`, 'Try again later.')
  const [published, another] = found
  if (published === undefined) return warn(check, `${hostname} has no SPF record`, `Publish ${record}`)
  if (another !== undefined)
    return bad(check, `${hostname} has ${found.length} SPF records`, 'Keep one: more are an error to receivers.')
  if (own === undefined) return unasked(check, hostname)
  const addresses = own.filter((source) => source.hostname === hostname).map(({ address }) => address)
  const verdicts = await Promise.all(
    addresses.map(async (address) => ({ address, result: await heloSpf(resolver, hostname, address) })),
  )
  const failing = verdicts.filter(({ result }) => result !== 'pass')
  return failing.length > 0
    ? bad(check, failing.map(({ address, result }) => `${result} for ${address}`).join('; '), `Publish ${record}`)
    : well(check, published)
}
