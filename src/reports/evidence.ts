// The cost of the next DMARC policy of a domain, by the authenticated reports of 14 days. It never claims that a policy
// is safe, only which email the policy would have rejected.
import { DAY, dayOf, startOfDay } from '../base/clock.ts'
import { counted, percent } from '../base/text.ts'
import { dmarcHost, nextPolicy, observedPolicy, type DmarcPolicy } from '../domains/dmarc.ts'
import type { Domain } from '../domains/find.ts'
import { conflictOf, recordsOf, wantedDmarc } from '../domains/records.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { OwnAddresses } from './own.ts'
import { dmarcSources, type DmarcSource, type SourcesDeps } from './sources.ts'

/** How long (ms) after the end of its period a report may arrive to be evidence. */
const LATE = 7 * DAY
/** The most messages of one provider and day that are evidence, of those reported within a day. */
const MOST_OF_PROVIDER = 10_000
/** The period of the evidence, and the minimum for a domain to be ready. */
export const PERIOD_DAYS = 14
const LEAST = { days: 10, reporters: 3, messages: 50 }
export const PASSING = 0.995
/** An unknown source with this part of all messages, whose DKIM or SPF passes, may be a forgotten service. */
const FORGOTTEN = 0.02

export interface DmarcEvidence {
  days: number
  reporters: number
  messages: number
  pass: number
  fail: number
  /** Failing messages of known sources. */
  known_fail: number
  unknown_sources: number
  /** The policy in DNS, or null if absent. */
  policy: DmarcPolicy | null
  next: DmarcPolicy | null
  /** Messages of known sources that the next policy would have blocked. */
  next_affected: number
  ready: boolean
  /** The missing evidence, or the email that the policy would have affected, in sentences. */
  reasons: string[]
  /** Name and value of the DNS record for the next policy, or null without a next policy. */
  record: string | null
  value: string | null
}

const sum = (sources: readonly DmarcSource[], of: (source: DmarcSource) => number): number =>
  Math.round(sources.reduce((all, each) => all + of(each), 0))

/** Days and reporters of the evidence, and the part of it that cannot be true. */
export interface SpokenEvidence {
  days: number
  reporters: number
  /** Reported passing messages of this server beyond those that it sent. */
  unsent: number
}

const failing = ({ evidence, evidence_pass }: DmarcSource): number => evidence - evidence_pass

/** The evidence from the sources of the period. */
export function evidenceBy(
  sources: readonly DmarcSource[],
  { unsent, ...spoken }: SpokenEvidence,
  policy: DmarcPolicy | null,
  conflict: string | null = null,
): Omit<DmarcEvidence, 'record' | 'value'> {
  const as = (...kinds: DmarcSource['known'][]) => sources.filter(({ known }) => kinds.includes(known))
  const known = as('this_server', 'relay', 'named')
  const unknown = as('unknown')
  const messages = Math.max(0, sum(sources, ({ evidence }) => evidence) - Math.round(unsent))
  // Forwarding is a claim of the reporter: such messages count if they fail and are ignored if they pass.
  const known_fail = sum([...known, ...as('forwarder')], failing)
  const fail = sum(sources, failing)
  const knownPass = Math.max(0, sum(known, (each) => each.evidence_pass) - Math.round(unsent))
  const knownMessages = knownPass + known_fail
  const forgotten = unknown.filter(
    (each) => each.address !== '' && each.evidence_proven > 0 && each.evidence >= messages * FORGOTTEN,
  )
  const next = policy === null ? 'none' : nextPolicy(policy)
  const lacks = [
    ...(policy === null ? [conflict ?? 'No DMARC record found. Publish the one in the list of DNS records.'] : []),
    ...(next === null ? [`p=${policy} is the strictest policy.`] : []),
    ...lackOf(spoken.days, LEAST.days, `Reports cover ${counted(spoken.days, 'day')}`),
    ...lackOf(
      spoken.reporters,
      LEAST.reporters,
      `Authenticated reports came from ${counted(spoken.reporters, 'provider')}`,
    ),
    ...lackOf(messages, LEAST.messages, `Reports cover ${counted(messages, 'message')}`),
    ...(messages >= LEAST.messages && knownMessages === 0
      ? ['All of them came from unknown sources. Send email, or add your services as known sources.']
      : []),
    ...(known_fail > knownMessages * (1 - PASSING)
      ? [
          `${known_fail} of ${counted(knownMessages, 'message')} from known sources failed DMARC. The limit is ${percent(1 - PASSING)}.`,
        ]
      : []),
    ...forgotten.map(
      ({ address, evidence }) =>
        `The unknown source ${address} sent ${counted(Math.round(evidence), 'message')} that pass SPF or DKIM for another domain. If it is a service of yours, set up DKIM there or add it as a known source.`,
    ),
  ]
  const ready = lacks.length === 0
  return {
    ...spoken,
    messages,
    pass: messages - fail,
    fail,
    known_fail,
    unknown_sources: sum(unknown, ({ addresses }) => addresses),
    policy,
    next,
    next_affected: known_fail,
    ready,
    reasons: ready ? [costOf(next, known_fail, knownMessages, fail)] : lacks,
  }
}

const lackOf = (there: number, least: number, words: string): string[] =>
  there >= least ? [] : [`${words} in the last ${PERIOD_DAYS} days. At least ${least} are needed.`]

const costOf = (next: DmarcPolicy | null, known: number, of: number, all: number): string =>
  `In the last ${PERIOD_DAYS} days, p=${next} would have affected ${known} of ${counted(of, 'message')} from known sources and ${counted(all - known, 'message')} from other sources.`

/** The part of each count of a report that is evidence. Call it before the report is recorded. */
export function evidenceShare(
  reader: Reader,
  report: Record<'domainKey' | 'begin' | 'end' | 'messages', number> & { reporter: string },
  now: number,
): number {
  const { begin, domainKey, end, messages, reporter } = report
  if (messages === 0 || end < now - LATE) return 0
  const day = startOfDay(begin)
  const { before } = reader.one(
    raw<{ before: number }>(
      `select coalesce(sum(passed + failed), 0) as before from aggregate_reports
       where domain_key = ? and created_at > ? and kind = 'dmarc' and outcome = 'read' and authenticated = 1
         and begin_at >= ? and begin_at < ? and reporter = ?`,
      [domainKey, now - DAY, day, day + DAY, reporter],
    ),
  )
  return Math.min(messages, Math.max(0, MOST_OF_PROVIDER - before)) / messages
}

export async function dmarcEvidence(deps: SourcesDeps, domain: Domain): Promise<DmarcEvidence> {
  const { clock, store } = deps
  const today = dayOf(clock.now())
  const since = today - PERIOD_DAYS + 1
  const { addresses, sources } = await dmarcSources(deps, domain, since)
  const dmarc = recordsOf(store, domain.key).find(({ record_type }) => record_type === 'DMARC')
  const observed = dmarc?.observed ?? null
  const spoken = { ...spokenSince(store, domain.key, since), unsent: unsentSince(store, domain, since, addresses) }
  const evidence = evidenceBy(sources, spoken, observedPolicy(observed), dmarc ? conflictOf(dmarc) : null)
  const { next } = evidence
  if (next === null) return { ...evidence, record: null, value: null }
  const { value } = wantedDmarc(store, { ...domain, dmarc_policy: next }, observed)
  return { ...evidence, record: dmarcHost(domain.name, next), value }
}

/**
 * Reported passing messages of this server and its relays beyond those that it delivered in the name of the domain and
 * its subdomains. Providers start their day at other hours, and queued email is delivered later, so the days before and
 * after count too.
 */
function unsentSince(
  reader: Reader,
  { key, name, user_key }: Domain,
  since: number,
  { own, relayed, relays }: OwnAddresses,
): number {
  const family = reader
    .all(raw<{ key: number; name: string }>('select key, name from domains where user_key = ?', [user_key]))
    .filter((each) => each.name === name || each.name.endsWith(`.${name}`))
  const sent = new Map(
    reader
      .all(
        raw<{ day: number; sent: number }>(
          `select hour / 24 as day, sum(deliveries) as sent from tallies
           where domain_key in (select value from json_each(?)) and hour >= ? group by 1`,
          [JSON.stringify(family.map((each) => each.key)), (since - 1) * 24],
        ),
      )
      .map((each) => [each.day, each.sent]),
  )
  const reported = reader.all(
    raw<{ day: number; pass: number; fail: number }>(
      `select day, sum(evidence_pass) as pass, sum(evidence - evidence_pass) as fail from dmarc_figures
       where domain_key = ? and day >= ?
         and (address in (select value from json_each(?)) or (? and both = 1 and address <> '')) group by day`,
      [key, since, JSON.stringify([...own, ...relays]), relayed ? 1 : 0],
    ),
  )
  return reported.reduce((all, { day, fail, pass }) => {
    const around = [day - 1, day, day + 1].reduce((some, each) => some + (sent.get(each) ?? 0), 0)
    return all + pass - Math.min(pass, Math.max(0, around - fail))
  }, 0)
}

/**
 * The number of days and reporters of reports that count. Reports of many days that arrive on one day count as one day,
 * so that ten days of evidence take ten days.
 */
function spokenSince(reader: Reader, domainKey: number, since: number): Pick<SpokenEvidence, 'days' | 'reporters'> {
  const { arrivals, days, reporters } = reader.one(
    raw<Record<'days' | 'arrivals' | 'reporters', number>>(
      `select count(distinct begin_at / ${DAY}) as days, count(distinct created_at / ${DAY}) as arrivals,
         count(distinct reporter) as reporters from aggregate_reports
       where domain_key = ? and created_at >= ? and kind = 'dmarc' and outcome = 'read' and authenticated = 1
         and begin_at >= ? and end_at >= created_at - ${LATE}`,
      // A report can begin two days ahead of its arrival.
      [domainKey, (since - 2) * DAY, since * DAY],
    ),
  )
  return { days: Math.min(days, arrivals), reporters }
}

const sourcesOf = (count: number): string => (count === 1 ? '1 source is' : `${count} sources are`)

export function evidenceText(name: string, evidence: DmarcEvidence): string {
  const { reasons, days, fail, known_fail, messages, next, pass, ready, reporters, unknown_sources } = evidence
  return [
    messages === 0
      ? `No reports about ${name} in the last ${PERIOD_DAYS} days.`
      : `Reports about ${name} in the last ${PERIOD_DAYS} days: ${counted(messages, 'message')} on ${counted(days, 'day')} from ${counted(reporters, 'provider')}. ${pass} pass and ${fail} fail (${known_fail} from known sources). ${sourcesOf(unknown_sources)} unknown.`,
    ready
      ? `Ready for p=${next}. Next step: "postrider domain dmarc ${name} --policy ${next}".`
      : next === null
        ? ''
        : `Not ready for p=${next} yet:`,
    ...reasons,
  ]
    .filter((line) => line !== '')
    .join('\n')
}
