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
  sources.reduce((all, each) => all + of(each), 0)

/** The evidence by the sources of the period, and by how many days and reporters speak. */
export function evidenceBy(
  sources: readonly DmarcSource[],
  spoken: { days: number; reporters: number },
  policy: DmarcPolicy | null,
): Omit<DmarcEvidence, 'record' | 'value'> {
  const known = sources.filter((each) => each.known !== 'unknown')
  const unknown = sources.filter((each) => each.known === 'unknown')
  const messages = sum(sources, (each) => each.messages)
  const pass = sum(sources, (each) => each.pass)
  const knownMessages = sum(known, (each) => each.messages)
  const known_fail = sum(known, (each) => each.messages - each.pass)
  const forgotten = unknown.filter(
    (each) => each.address !== '' && each.proven > 0 && each.messages >= messages * FORGOTTEN,
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
    ...(known_fail > knownMessages * (1 - PASSING)
      ? [`${counted(known_fail, 'message')} of ${knownMessages} from known addresses fail; fine is up to 0.5%.`]
      : []),
    ...forgotten.map(
      ({ address, messages: many }) =>
        `${address} is not known here and sent ${counted(many, 'message')} that pass for another domain: it may be a service of yours. Set up its DKIM, or give it a name.`,
    ),
  ]
  const ready = lacks.length === 0
  return {
    ...spoken,
    messages,
    pass,
    fail: messages - pass,
    known_fail,
    unknown_sources: unknown.length,
    policy,
    next,
    next_costs: known_fail,
    ready,
    because: ready ? [costOf(next, known_fail, knownMessages, messages - pass)] : lacks,
  }
}

const lackOf = (there: number, least: number, words: string): string[] =>
  there >= least ? [] : [`${words}; it takes ${least} in ${PERIOD_DAYS} days.`]

const costOf = (next: DmarcPolicy | null, known: number, of: number, all: number): string =>
  `In the last ${PERIOD_DAYS} days p=${next} would have kept out of the inbox ${counted(known, 'message')} of ${of} from addresses that are known, and ${all - known} from others.`

/** The evidence of a domain now. */
export async function dmarcEvidence(deps: SourcesDeps, domain: Domain): Promise<DmarcEvidence> {
  const since = dayOfTime(deps.clock.now()) - PERIOD_DAYS + 1
  const sources = await dmarcSources(deps, domain, since)
  const observed =
    recordsOf(deps.store, domain.key).find(({ record_type }) => record_type === 'DMARC')?.observed ?? null
  const evidence = evidenceBy(sources, spokenSince(deps.store, domain.key, since), observedPolicy(observed))
  const { next } = evidence
  if (next === null) return { ...evidence, record: null, value: null }
  const { value } = judgeDmarc(next, observed, reportsTo('dmarc', domain))
  return { ...evidence, record: dmarcHost(domain.name, next), value }
}

/** On how many days, and by how many reporters, something was said that counts. */
function spokenSince(reader: Reader, domainKey: number, since: number): { days: number; reporters: number } {
  const { days } = reader.one(
    raw<{ days: number }>('select count(distinct day) as days from dmarc_figures where domain_key = ? and day >= ?', [
      domainKey,
      since,
    ]),
  )
  const { reporters } = reader.one(
    raw<{ reporters: number }>(
      `select count(distinct reporter) as reporters from aggregate_reports
       where domain_key = ? and kind = 'dmarc' and outcome = 'read' and authenticated = 1 and begin_at >= ?`,
      [domainKey, since * DAY],
    ),
  )
  return { days, reporters }
}

const addresses = (count: number): string => (count === 1 ? '1 address is' : `${count} addresses are`)

export function evidenceText(name: string, evidence: DmarcEvidence): string {
  const { because, days, fail, known_fail, messages, next, pass, ready, reporters, unknown_sources } = evidence
  return [
    messages === 0
      ? `No report about ${name} of the last ${PERIOD_DAYS} days counts yet.`
      : `Reports about ${name} of the last ${PERIOD_DAYS} days: ${counted(messages, 'message')} on ${counted(days, 'day')} by ${counted(reporters, 'provider')}; ${pass} pass, ${fail} fail (${known_fail} from known addresses). ${addresses(unknown_sources)} not known here.`,
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
