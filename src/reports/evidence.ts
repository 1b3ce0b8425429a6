// What the next DMARC policy of a domain would cost, by what authenticated reports said in 14 days (DV57). It never
// says that a policy is safe: only what would have been refused.
import { DAY } from '../base/clock.ts'
import { counted } from '../base/text.ts'
import { dmarcHost, judgeDmarc, nextPolicy, observedPolicy, type DmarcPolicy } from '../domains/dmarc.ts'
import type { Domain } from '../domains/find.ts'
import { recordsOf } from '../domains/records.ts'
import { reportsTo } from '../domains/report-addresses.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { breath, type DaySource } from './days.ts'
import type { OwnAddresses } from './own.ts'
import { LATE } from './share.ts'
import { dayOfTime, dmarcSources, type DmarcSource, type SourcesDeps } from './sources.ts'

/** What is looked at, and what it takes to be ready. */
export const PERIOD_DAYS = 14
const LEAST = { days: 10, reporters: 3, messages: 50 }
const PASSING = 0.995
/** An unknown source with this share of all messages, whose DKIM or SPF passes, may be a service that was forgotten. */
const FORGOTTEN = 0.02

export interface DmarcEvidence {
  days: number
  reporters: number
  messages: number
  pass: number
  fail: number
  /** Failing messages of sources that are known. */
  known_fail: number
  unknown_sources: number
  /** The policy that DNS shows; null: none was seen. */
  policy: DmarcPolicy | null
  next: DmarcPolicy | null
  /** Messages of known sources that the next policy would have kept away. */
  next_costs: number
  ready: boolean
  /** What lacks, or what the figures say, in sentences. */
  because: string[]
  /** Where the record of the next policy stands in DNS, and what it says; null without a next one. */
  record: string | null
  value: string | null
}

const sum = (sources: readonly DmarcSource[], of: (source: DmarcSource) => number): number =>
  Math.round(sources.reduce((all, each) => all + of(each), 0))

/** Who speaks, and what of it cannot be true. */
export interface SpokenEvidence {
  days: number
  reporters: number
  /** Passing messages of this server beyond those that it sent. */
  unsent: number
}

const failing = ({ counted, counted_pass }: DmarcSource): number => counted - counted_pass

/** The evidence by the sources of the period, and by how many days and reporters speak. */
export function evidenceBy(
  sources: readonly DmarcSource[],
  { unsent, ...spoken }: SpokenEvidence,
  policy: DmarcPolicy | null,
): Omit<DmarcEvidence, 'record' | 'value'> {
  const as = (...kinds: DmarcSource['known'][]) => sources.filter(({ known }) => kinds.includes(known))
  const known = as('this_server', 'relay', 'named')
  const unknown = as('unknown')
  const messages = Math.max(0, sum(sources, ({ counted }) => counted) - Math.round(unsent))
  // That mail was passed on is what a reporter says: it may cost something, and it speaks for nothing.
  const known_fail = sum([...known, ...as('forwarder')], failing)
  const fail = sum(sources, failing)
  const knownPass = Math.max(0, sum(known, (each) => each.counted_pass) - Math.round(unsent))
  const knownMessages = knownPass + known_fail
  const forgotten = unknown.filter(
    (each) => each.address !== '' && each.counted_proven > 0 && each.counted >= messages * FORGOTTEN,
  )
  const next = policy === null ? 'none' : nextPolicy(policy)
  const lacks = [
    ...(policy === null ? ['DNS shows no DMARC record: publish the one that the domain’s records name.'] : []),
    ...(next === null ? [`p=${policy} is the strictest policy.`] : []),
    ...lackOf(spoken.days, LEAST.days, `Reports speak of ${counted(spoken.days, 'day')}`),
    ...lackOf(
      spoken.reporters,
      LEAST.reporters,
      `Reports came from ${counted(spoken.reporters, 'provider')} that proved who they are`,
    ),
    ...lackOf(messages, LEAST.messages, `Reports speak of ${counted(messages, 'message')}`),
    ...(messages >= LEAST.messages && knownMessages === 0
      ? ['None of it came from an address that is known here: send mail, or give your services their names.']
      : []),
    ...(known_fail > knownMessages * (1 - PASSING)
      ? [`${counted(known_fail, 'message')} of ${knownMessages} from known addresses fail; fine is up to 0.5%.`]
      : []),
    ...forgotten.map(
      ({ address, counted: many }) =>
        `${address} is not known here and sent ${counted(Math.round(many), 'message')} that pass for another domain: it may be a service of yours. Set up its DKIM, or give it a name.`,
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
    next_costs: known_fail,
    ready,
    because: ready ? [costOf(next, known_fail, knownMessages, fail)] : lacks,
  }
}

const lackOf = (there: number, least: number, words: string): string[] =>
  there >= least ? [] : [`${words}; it takes ${least} in ${PERIOD_DAYS} days.`]

const costOf = (next: DmarcPolicy | null, known: number, of: number, all: number): string =>
  `In the last ${PERIOD_DAYS} days p=${next} would have kept out of the inbox ${counted(known, 'message')} of ${of} from addresses that are known, and ${all - known} from others.`

/** The evidence of a domain now. */
export async function dmarcEvidence(deps: SourcesDeps, domain: Domain): Promise<DmarcEvidence> {
  const { clock, store } = deps
  const today = dayOfTime(clock.now())
  const since = today - PERIOD_DAYS + 1
  const sent = sentByDay(store, domain, since)
  let unsent = 0
  const sources = await dmarcSources(deps, domain, since, (day, all, addresses) => {
    unsent += unsentOf(all, addresses, sent(day))
  })
  const observed = recordsOf(store, domain.key).find(({ record_type }) => record_type === 'DMARC')?.observed ?? null
  const spoken = { ...(await spokenSince(store, domain.key, { since, today })), unsent }
  const evidence = evidenceBy(sources, spoken, observedPolicy(observed))
  const { next } = evidence
  if (next === null) return { ...evidence, record: null, value: null }
  const { value } = judgeDmarc(next, observed, reportsTo('dmarc', domain))
  return { ...evidence, record: dmarcHost(domain.name, next), value }
}

/**
 * How many mails this server delivered in the name of a domain and of those below it, by the day of a report. Providers
 * begin their day at other hours, and mail is delivered after it waited: the days around it count too.
 */
function sentByDay(reader: Reader, { name, user_key }: Domain, since: number): (day: number) => number {
  const family = reader
    .all(raw<{ key: number; name: string }>('select key, name from domains where user_key = ?', [user_key]))
    .filter((each) => each.name === name || each.name.endsWith(`.${name}`))
  const rows = reader.all(
    raw<{ day: number; sent: number }>(
      `select hour / 24 as day, sum(deliveries) as sent from tallies
       where domain_key in (select value from json_each(?)) and hour >= ? group by 1`,
      [JSON.stringify(family.map(({ key }) => key)), (since - 1) * 24],
    ),
  )
  const byDay = new Map(rows.map(({ day, sent }) => [day, sent]))
  return (day) => [day - 1, day, day + 1].reduce((all, each) => all + (byDay.get(each) ?? 0), 0)
}

/** Passing messages of a day that are said to be of this server or its relays, beyond those that it sent. */
function unsentOf(sources: readonly DaySource[], { own, relayed, relays }: OwnAddresses, sent: number): number {
  const ours = sources.filter(
    ({ address, both }) => own.has(address) || relays.has(address) || (relayed && both === 1 && address !== ''),
  )
  const pass = ours.reduce((all, each) => all + each.counted_pass, 0)
  const fail = ours.reduce((all, each) => all + each.counted - each.counted_pass, 0)
  return pass - Math.min(pass, Math.max(0, sent - fail))
}

/**
 * On how many days, and by how many reporters, something was said that counts. Reports of many days that come on one
 * day speak of one: evidence takes as long as it says.
 */
async function spokenSince(
  reader: Reader,
  domainKey: number,
  { since, today }: { since: number; today: number },
): Promise<Pick<SpokenEvidence, 'days' | 'reporters'>> {
  const days = new Set<number>()
  const reporters = new Set<string>()
  let arrivals = 0
  // A report may begin two days ahead of its arrival.
  for (let arrived = since - 2; arrived <= today; arrived++) {
    const rows = reader.all(
      raw<{ day: number; reporter: string }>(
        `select distinct begin_at / ${DAY} as day, reporter from aggregate_reports
         where domain_key = ? and created_at >= ? and created_at < ? and kind = 'dmarc' and outcome = 'read'
           and authenticated = 1 and begin_at >= ? and end_at >= created_at - ${LATE}`,
        [domainKey, arrived * DAY, (arrived + 1) * DAY, since * DAY],
      ),
    )
    if (rows.length > 0) arrivals++
    for (const { day, reporter } of rows) {
      days.add(day)
      reporters.add(reporter)
    }
    await breath()
  }
  return { days: Math.min(days.size, arrivals), reporters: reporters.size }
}

const addresses = (count: number): string => (count === 1 ? '1 address is' : `${count} addresses are`)

export function evidenceText(name: string, evidence: DmarcEvidence): string {
  const { because, days, fail, known_fail, messages, next, pass, ready, reporters, unknown_sources } = evidence
  return [
    messages === 0
      ? `No report about ${name} of the last ${PERIOD_DAYS} days counts yet.`
      : `Reports about ${name} of the last ${PERIOD_DAYS} days that count: ${counted(messages, 'message')} on ${counted(days, 'day')} by ${counted(reporters, 'provider')}; ${pass} pass, ${fail} fail (${known_fail} from known addresses). ${addresses(unknown_sources)} not known here.`,
    ready
      ? `The evidence for p=${next} is complete; the next step is "postrider domain dmarc ${name} --policy ${next}".`
      : next === null
        ? ''
        : `Not enough for p=${next} yet:`,
    ...because,
  ]
    .filter((line) => line !== '')
    .join('\n')
}
