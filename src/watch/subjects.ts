// The subjects of checks: the public sending IP addresses, the sending domains and their link hosts.
import type { Config } from '../base/config.ts'
import { isPublic } from '../base/network.ts'
import { listDomains } from '../domains/find.ts'
import { TRACKING_LABEL } from '../domains/records.ts'
import type { Resolver } from '../net/resolver.ts'
import { sendingAddresses, type SendingAddress, type SendingConfig } from '../net/sending-addresses.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { Reader } from '../store/database.ts'

export type WatchedThing = Pick<RowOf<'watches'>, 'kind' | 'subject' | 'list' | 'hostname'>

/** The checks of a sending IP address: its lists, its PTR record, and whether the name is forward-confirmed. */
export const addressChecks = (
  { address: subject, hostname }: SendingAddress,
  lists: readonly string[],
): WatchedThing[] => [
  ...lists.map((list) => ({ kind: 'blocklist' as const, subject, list, hostname: '' })),
  { kind: 'reverse', subject, list: '', hostname },
  { kind: 'forward', subject, list: '', hostname },
]

/** The sending domains, each once, with their link hosts. */
const domainNames = (reader: Reader): string[] => [
  ...new Set(
    listDomains(reader)
      .filter(({ status }) => status === 'active')
      .flatMap(({ name, tracking_redirect_mode: mode }) =>
        mode === 'branded' ? [name, `${TRACKING_LABEL}.${name}`] : [name],
      ),
  ),
]

/** Returns all checks. `silent`: DNS did not answer, so addresses may be missing. */
export async function subjectsOf(
  reader: Reader,
  config: SendingConfig & Pick<Config, 'watch'>,
  resolver: Pick<Resolver, 'a' | 'aaaa'>,
): Promise<{ things: WatchedThing[]; silent: boolean }> {
  const { silent, sources } = await sendingAddresses(config, resolver)
  const { domain_lists, lists } = config.watch
  // Blocklists contain only public addresses, and some report all others as listed.
  const addresses = sources.filter(({ address }) => isPublic(address)).flatMap((source) => addressChecks(source, lists))
  const domains = domainNames(reader).flatMap((subject): WatchedThing[] =>
    domain_lists.map((list) => ({ kind: 'domain_list', subject, list, hostname: '' })),
  )
  return { things: [...addresses, ...domains], silent }
}
