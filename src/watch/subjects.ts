// What is watched: the public addresses that mail leaves from, the sending domains and the hosts of their links.
import type { Config } from '../base/config.ts'
import { allowPublicAnd, canonical } from '../base/network.ts'
import { sourcesOf } from '../base/sources.ts'
import { listDomains } from '../domains/find.ts'
import { TRACKING_LABEL } from '../domains/records.ts'
import type { Resolver } from '../net/resolver.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Reader } from '../store/database.ts'

/** The most addresses of `hostname` that are looked at. */
const MOST = 4

export interface WatchedSource {
  address: string
  /** The name that it says in EHLO, in lower case. */
  hostname: string
}

type SourcesConfig = { hostname: string; delivery: Pick<Config['delivery'], 'source' | 'sources'> }

/**
 * The addresses that mail leaves from: the sources of the configuration, and the addresses of the host name. `silent`:
 * DNS did not answer.
 */
export async function watchedSources(
  config: SourcesConfig,
  resolver: Pick<Resolver, 'a' | 'aaaa'>,
): Promise<{ sources: WatchedSource[]; silent: boolean }> {
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

/** Lists have public addresses only; some answer for all others that they are listed. */
export const isPublic = allowPublicAnd([])

export type WatchedThing = Pick<RowOf<'watches'>, 'kind' | 'subject' | 'list' | 'hostname'>

/** The sending domains, each once, with the hosts of their own links. */
const domainNames = (reader: Reader): string[] => [
  ...new Set(
    listDomains(reader)
      .filter(({ status }) => status === 'active')
      .flatMap(({ name, tracking_redirect_mode: mode }) =>
        mode === 'branded' ? [name, `${TRACKING_LABEL}.${name}`] : [name],
      ),
  ),
]

/** Everything to be watched now. `silent`: DNS did not answer, so that addresses may be missing. */
export async function subjectsOf(
  reader: Reader,
  config: SourcesConfig & Pick<Config, 'watch'>,
  resolver: Pick<Resolver, 'a' | 'aaaa'>,
): Promise<{ things: WatchedThing[]; silent: boolean }> {
  const { silent, sources } = await watchedSources(config, resolver)
  const { domain_lists, lists } = config.watch
  const addresses = sources
    .filter(({ address }) => isPublic(address))
    .flatMap(({ address: subject, hostname }): WatchedThing[] => [
      ...lists.map((list) => ({ kind: 'blocklist' as const, subject, list, hostname: '' })),
      { kind: 'reverse', subject, list: '', hostname },
      { kind: 'forward', subject, list: '', hostname },
    ])
  const domains = domainNames(reader).flatMap((subject): WatchedThing[] =>
    domain_lists.map((list) => ({ kind: 'domain_list', subject, list, hostname: '' })),
  )
  return { things: [...addresses, ...domains], silent }
}
