// The sending IP addresses of this server with their names in EHLO.
import type { Config } from '../base/config.ts'
import { canonical } from '../base/network.ts'
import { sourcesOf } from '../base/sources.ts'
import type { Resolver } from './resolver.ts'

/** The most addresses of `hostname` that are used. */
const MOST = 4

export interface SendingAddress {
  address: string
  /** Its name in EHLO, in lower case. */
  hostname: string
}

export type SendingConfig = { hostname: string; delivery: Pick<Config['delivery'], 'source' | 'sources'> }

/** The sending IP addresses: those of the configuration and of the hostname. `silent`: DNS did not answer. */
export async function sendingAddresses(
  config: SendingConfig,
  resolver: Pick<Resolver, 'a' | 'aaaa'>,
): Promise<{ sources: SendingAddress[]; silent: boolean }> {
  const hostname = config.hostname.toLowerCase()
  const answers = await Promise.all([resolver.a(hostname), resolver.aaaa(hostname)])
  const own = answers.flatMap((answer) => (answer.kind === 'found' ? answer.records.slice(0, MOST) : []))
  const named = new Map([
    ...own.map((address) => [canonical(address), hostname] as const),
    ...sourcesOf(config).map((source) => [source.address, source.hostname] as const),
  ])
  return {
    sources: [...named].map(([address, name]) => ({ address, hostname: name })),
    silent: answers.some(({ kind }) => kind === 'failed'),
  }
}

/** The sending IP addresses, or undefined if DNS returned none and did not answer completely. */
export async function knownSendingAddresses(
  config: SendingConfig,
  resolver: Pick<Resolver, 'a' | 'aaaa'>,
): Promise<SendingAddress[] | undefined> {
  const { silent, sources } = await sendingAddresses(config, resolver)
  return silent && sources.length === 0 ? undefined : sources
}
