// The checks of `postrider doctor` for blocklists and reverse DNS: what is found when they are asked now, and what the
// watch knows of them (DV94).
import { systemClock } from '../base/clock.ts'
import { isPublic } from '../watch/subjects.ts'
import { ListReader, type WatchAnswer } from '../watch/lists.ts'
import { askReverse, meaningOfReverse } from '../watch/reverse.ts'
import { serversOf } from '../net/resolver.ts'
import type { Reader } from '../store/database.ts'
import { listWatches, type WatchRow } from '../watch/watches.ts'
import { explained } from '../watch/words.ts'
import { bad, unasked, warn, well, type Finding } from './doctor-machine.ts'
import { ownSources, type World } from './doctor-network.ts'

const REMOVAL = 'Find out why at the page of the list, fix that, and ask for removal there.'

/** Whether the addresses that mail leaves from are on a blocklist. */
export async function judgeBlocklists(world: World): Promise<Finding> {
  const check = 'blocklists'
  const { config, resolver } = world
  const sources = await ownSources(world)
  if (sources === undefined) return unasked(check, config.hostname)
  const all = sources.map(({ address }) => address)
  const addresses = all.filter(isPublic)
  if (all.length > 0 && addresses.length === 0)
    return well(check, `${all.join(', ')} ${all.length === 1 ? 'is' : 'are'} not public; lists are not asked about it`)
  if (addresses.length === 0)
    return warn(check, 'the hostname has no address to look for', `Publish an A record for ${config.hostname}.`)
  const reader = new ListReader({ clock: systemClock, resolver, servers: serversOf(config.dns.servers) })
  const found = await Promise.all(
    config.watch.lists.flatMap((list) =>
      addresses.map(async (address) => ({ address, list, said: await reader.ask('blocklist', list, address) })),
    ),
  )
  const listed = found.flatMap(({ address, list, said }) => (said.state === 'listed' ? [`${address} on ${list}`] : []))
  if (listed.length > 0) return bad(check, listed.toSorted().join('; '), REMOVAL)
  const unsure = found.filter(({ said }) => said.state === 'unknown')
  if (unsure.length === 0) return well(check, `${addresses.join(', ')} on none of ${config.watch.lists.join(', ')}`)
  return warn(
    check,
    [...new Set(unsure.map(({ said }) => said.answer))].join('; '),
    'Lists do not answer big public resolvers: use one of your own ("dns.servers"). See too that it does not change answers.',
  )
}

/** The address must lead to the name in EHLO, and the name back (RFC 1912 §2.1, and Gmail's rule for senders). */
export async function judgeReverse(world: World): Promise<Finding> {
  const check = 'reverse DNS'
  const { hostname } = world.config
  const sources = await ownSources(world)
  if (sources === undefined) return unasked(check, hostname)
  if (sources.length === 0)
    return bad(
      check,
      `${hostname} has no address`,
      `Publish an A record for ${hostname} (and AAAA, if mail goes out by IPv6).`,
    )
  const found = await Promise.all(
    sources.map(async (source) => ({ source, said: await askReverse(world.resolver, source) })),
  )
  const faults = found.flatMap(({ said, source }) => {
    const meant = (kind: 'reverse' | 'forward', { answer }: WatchAnswer) =>
      meaningOfReverse(kind, { answer, hostname: source.hostname, subject: source.address })
    if (said.reverse.state === 'wrong') return [meant('reverse', said.reverse)]
    return said.forward.state === 'wrong' ? [meant('forward', said.forward)] : []
  })
  if (faults.length > 0)
    return bad(
      check,
      faults.map(({ words }) => words.replace(/\.$/, '')).join('; '),
      [...new Set(faults.map(({ mend }) => mend))].join(' '),
    )
  const silent = found.filter(({ said }) => said.reverse.state === 'unknown' || said.forward.state === 'unknown')
  if (silent.length > 0) return unasked(check, silent.map(({ source }) => source.address).join(', '))
  return well(check, `${sources.map(({ address }) => address).join(', ')} and ${hostname} name each other`)
}

/** The checks in which what is watched stands. */
const CHECKS: Record<WatchRow['kind'], string> = {
  reverse: 'reverse DNS',
  forward: 'reverse DNS',
  blocklist: 'blocklists',
  domain_list: 'lists of domains',
}

/** What the watch knows, as findings; nothing of what was not asked yet. */
export function judgeWatched(reader: Reader): Finding[] {
  const known = listWatches(reader).filter(({ answer, status }) => status !== 'unknown' || answer !== '')
  return [...Map.groupBy(known, ({ kind }) => CHECKS[kind])].map(([check, rows]) => {
    const told = (some: readonly WatchRow[]): [string, string] => {
      const each = some.slice(0, 5).map(explained)
      const more = some.length > each.length ? ` And ${some.length - each.length} more.` : ''
      const fixes = new Set(each.flatMap(({ mend }) => mend ?? []))
      return [`${each.map(({ words }) => words).join(' ')}${more}`, [...fixes].join(' ')]
    }
    const faults = rows.filter(({ status }) => status === 'listed' || status === 'wrong')
    if (faults.length > 0) return bad(check, ...told(faults))
    const unsure = rows.filter(({ status }) => status === 'unknown')
    if (unsure.length > 0) return warn(check, ...told(unsure))
    const subjects = [...new Set(rows.map(({ subject }) => subject))]
    const shown = `${subjects.slice(0, 5).join(', ')}${subjects.length > 5 ? ` and ${subjects.length - 5} more` : ''}`
    return well(
      check,
      check === 'reverse DNS' ? `${shown}: name and address lead to each other` : `${shown}: on no list`,
    )
  })
}
