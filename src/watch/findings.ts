// The finders of blocklists and reverse DNS: from the results of the watch, or by looking up now.
import { MINUTE } from '../base/clock.ts'
import { isPublic } from '../base/network.ts'
import { fail, ok, unanswered, warn, type Finder, type FinderDeps, type Finding } from '../parts/findings/finding.ts'
import { knownSendingAddresses } from '../net/sending-addresses.ts'
import { lookUp, readerOf } from './round.ts'
import { addressChecks } from './subjects.ts'
import { listWatches, type WatchRow } from './watches.ts'
import { explained, type ExplainedWatch } from './words.ts'

const REVERSE = 'reverse DNS'
const LISTS = 'blocklists'

const IDS: Record<WatchRow['kind'], string> = {
  reverse: REVERSE,
  forward: REVERSE,
  blocklist: LISTS,
  domain_list: 'lists of domains',
}

const EFFECTS: Readonly<Record<string, string>> = {
  [REVERSE]: 'Reverse DNS is wrong: large providers reject your email.',
  [LISTS]: 'An IP address of this server is on a blocklist: providers may reject your email.',
  [IDS.domain_list]: 'A domain of this server is on a blocklist: providers may reject its email.',
}

/** The most results that a finding contains. */
const MOST = 5

/** Returns the problems of a check. A name that is not forward-confirmed counts only if it is the right name. */
export function problemsIn<Result extends ExplainedWatch>(results: readonly Result[]): Result[] {
  const problems = results.filter(({ status }) => status === 'listed' || status === 'wrong')
  const misnamed = new Set(problems.flatMap(({ kind, subject }) => (kind === 'reverse' ? subject : [])))
  return problems.filter(({ kind, subject }) => kind !== 'forward' || !misnamed.has(subject))
}

/** Joins different texts: sentences by a space, names by a comma. */
function joined(by: ' ' | ', ', texts: readonly string[]): string {
  const all = [...new Set(texts)]
  const more = all.length > MOST ? `${by}${all.length - MOST} more` : ''
  return all.slice(0, MOST).join(by) + more
}

/** Returns one finding for each check. */
const findingsOf = (results: readonly ExplainedWatch[]): Finding[] =>
  [...Map.groupBy(results, ({ kind }) => IDS[kind])].map(([id, all]) => {
    const problems = problemsIn(all)
    const found = problems.length > 0 ? problems : all.filter(({ status }) => status === 'unknown')
    if (found.length === 0) {
      const names = (of: 'subject' | 'list'): string =>
        joined(
          ', ',
          all.map((each) => each[of]),
        )
      return ok(id, names('subject') + (id === REVERSE ? ': forward-confirmed' : ` not listed by ${names('list')}`))
    }
    const texts = found.map(explained)
    const summary = joined(
      ' ',
      texts.map(({ words }) => words),
    ).replace(/\.$/, '')
    const fixes = joined(
      ' ',
      texts.flatMap(({ fix }) => fix ?? []),
    )
    return problems.length > 0 ? { ...fail(id, summary, fixes), effect: EFFECTS[id] ?? null } : warn(id, summary, fixes)
  })

/** Looks up the sending IP addresses now. */
async function findNow({ clock, config, resolver }: FinderDeps): Promise<Finding[]> {
  const { hostname } = config
  const own = await knownSendingAddresses(config, resolver)
  if (own === undefined) return [unanswered(REVERSE, hostname), unanswered(LISTS, hostname)]
  const publish = `Publish an A record for ${hostname} (and AAAA, if it sends over IPv6).`
  if (own.length === 0)
    return [fail(REVERSE, `${hostname} has no address`, publish), warn(LISTS, 'the hostname has no address', publish)]
  const lists = readerOf({ clock, config, resolver })
  const answers = await Promise.all(
    own.map((source) =>
      lookUp({ resolver }, lists, addressChecks(source, isPublic(source.address) ? config.watch.lists : [])),
    ),
  )
  const results = answers
    .flat()
    .map(([check, { answer, state }]) => ({ ...check, answer, status: state, checked_at: clock.now() }))
  const hidden = own.filter(({ address }) => !isPublic(address)).map(({ address }) => address)
  if (hidden.length < own.length) return findingsOf(results)
  const summary = `${hidden.join(', ')} ${hidden.length === 1 ? 'is' : 'are'} not public, so blocklists are not checked`
  return [...findingsOf(results), ok(LISTS, summary)]
}

const isWatching = ({ config, running }: FinderDeps): boolean => running !== undefined && config.watch.interval > 0

export const findings: readonly Finder[] = [
  {
    every: 10 * MINUTE,
    find: (deps) =>
      isWatching(deps) && deps.store
        ? findingsOf(listWatches(deps.store).filter(({ answer, status }) => status !== 'unknown' || answer !== '')).map(
            (each) => ({ ...each, href: '/server/watch' }),
          )
        : [],
  },
  { runs: 'background', find: (deps) => (isWatching(deps) ? [] : findNow(deps)) },
]
