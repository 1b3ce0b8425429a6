// What others report: alarms of receivers, the tables of Microsoft and Google, and aggregate reports of DMARC and TLS.
import { forLog } from '../base/clean-text.ts'
import { DAY, iso } from '../base/clock.ts'
import { alarmSentence } from '../reputation/alarm-words.ts'
import { PERIOD_DAYS } from '../reports/evidence.ts'
import { dayOfTime, namesOfSources, sourcesHere, sumDaysHere, type DmarcSource } from '../reports/sources.ts'
import { tlsTroubleOf } from '../reports/tls-figures.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Reader, Store } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { EvidenceSource, WhyDeps, WhyRow } from './evidence.ts'
import type { WhySubject } from './subject.ts'

const MAX_TEXT = 300
/** Rows of a source that are read at most. */
const MOST = 50
/** The receivers whose tables these are, by the names of the shaping file. */
const OF_MICROSOFT = new Set(['Microsoft consumer', 'Microsoft 365'])
const GOOGLE = 'Google'
/** From this share of mail that readers call spam on Google takes notice (support.google.com/a/answer/81126). */
const SPAM_RATE = 0.001
const BAD_REPUTATION = /^(?:low|bad)$/i
/** Known sources with a larger share of failing mail need somebody (as the evidence for a policy demands). */
const FAILING = 0.005
/** Sources that are shown. */
const SHOWN = 10

const dayText = (day: number): string => iso(day * DAY).slice(0, 10)
const percent = (share: number): string => `${Number((share * 100).toFixed(2))}%`
const json = (list: readonly unknown[]): string => JSON.stringify(list)

/** Open alarms of the receivers; of a domain, those of receivers that had its mail. */
function alarmRows(reader: Reader, { accounts, domain, kind, receivers }: WhySubject): WhyRow[] {
  const alarms = reader.all(
    raw<RowOf<'receiver_alarms'>>(
      `select * from receiver_alarms where status = 'open' and user_key in (select value from json_each(?))
         ${kind === 'domain' ? '' : 'and receiver in (select value from json_each(?))'}
       order by created_at desc limit ${MOST}`,
      [json(accounts), ...(kind === 'domain' ? [] : [json(receivers)])],
    ),
  )
  const has = ({ created_at, receiver, user_key }: RowOf<'receiver_alarms'>): boolean =>
    reader.first(
      raw(
        `select 1 as there from receiver_domains where user_key = ? and receiver = ? and day >= ? and domain_key = ? limit 1`,
        [user_key, receiver, Math.floor(created_at / DAY) - 1, domain?.key ?? 0],
      ),
    ) !== undefined
  return alarms
    .filter((alarm) => kind !== 'domain' || has(alarm))
    .map((alarm) => ({
      at: alarm.created_at,
      fact: alarm.kind,
      text: `${alarmSentence(alarm)}${alarm.words === null ? '' : ` It says: ${forLog(alarm.words, MAX_TEXT)}`}`,
      href: `/receivers/${encodeURIComponent(alarm.receiver)}`,
    }))
}

/** What Microsoft's SNDS says of the addresses of this server: the operator's. */
function sndsRows(reader: Reader, { receivers, since }: WhySubject): WhyRow[] {
  if (!receivers.some((name) => OF_MICROSOFT.has(name))) return []
  const rows = reader.all(
    raw<RowOf<'snds_rows'>>(`select * from snds_rows where day >= ? order by day desc, address limit ${MOST}`, [
      Math.floor(since / DAY),
    ]),
  )
  return rows.map(({ address, complaint_rate, day, filter_result, recipients, traps }) => {
    const complaints = complaint_rate === null ? '' : `, complaints ${percent(complaint_rate)}`
    const trapped = traps === null || traps === 0 ? '' : `, ${traps} to traps`
    return {
      at: day * DAY,
      fact: filter_result === 'green' && trapped === '' ? 'good' : 'bad',
      text: `SNDS on ${dayText(day)}: ${address} ${filter_result}, ${recipients.toLocaleString('en')} recipients${complaints}${trapped}`,
      href: null,
    }
  })
}

/** What Google's Postmaster Tools say of the sending domains. */
function gmailRows(reader: Reader, { accounts, domain, kind, receivers, since }: WhySubject): WhyRow[] {
  if (kind !== 'domain' && !receivers.includes(GOOGLE)) return []
  const of = domain
    ? raw<{ key: number; name: string }>('select key, name from domains where key = ?', [domain.key])
    : raw<{ key: number; name: string }>(
        'select key, name from domains where deleted_at is null and user_key in (select value from json_each(?))',
        [json(accounts)],
      )
  const names = new Map(reader.all(of).map(({ key, name }) => [key, name]))
  const rows = reader.all(
    raw<RowOf<'gmail_rows'>>(
      `select * from gmail_rows where domain_key in (select value from json_each(?)) and day >= ?
       order by day desc, domain_key limit ${MOST}`,
      [json([...names.keys()]), Math.floor(since / DAY)],
    ),
  )
  return rows.map(({ compliance, day, domain_key, reputation, spam_rate }) => {
    const name = names.get(domain_key) ?? ''
    const said = [
      ...(spam_rate === null ? [] : [`called spam ${percent(spam_rate)}`]),
      ...(reputation === null ? [] : [`reputation ${forLog(reputation, MAX_TEXT)}`]),
      ...(compliance === null ? [] : [`compliance ${forLog(compliance, MAX_TEXT)}`]),
    ]
    const isBad = (spam_rate ?? 0) >= SPAM_RATE || BAD_REPUTATION.test(reputation ?? '')
    return {
      at: day * DAY,
      fact: isBad ? 'bad' : 'good',
      text: `Postmaster Tools on ${dayText(day)}: ${name} ${said.join(', ') || 'without figures'}`,
      href: `/domains/${name}`,
    }
  })
}

const KNOWN_AS: Readonly<Record<DmarcSource['known'], string>> = {
  this_server: 'this server',
  relay: 'a relay',
  named: 'named',
  forwarder: 'a forwarder',
  unknown: 'unknown',
}

const daysOfWhy = (now: number) => ({ since: dayOfTime(now) - PERIOD_DAYS + 1, today: dayOfTime(now) })

/** Has the days of DMARC reports summed, so that an explanation does not wait for it. */
export async function readyReports(
  deps: Pick<WhyDeps, 'config'> & { store: Store },
  { domain, now }: WhySubject,
): Promise<void> {
  if (domain) await sumDaysHere(deps, domain, daysOfWhy(now))
}

/** Sources whose mail fails DMARC, as authenticated reports say. */
function dmarcRows(deps: WhyDeps, { domain, now }: WhySubject): WhyRow[] {
  if (!domain) return []
  const days = daysOfWhy(now)
  const failing = sourcesHere(deps, domain, days).filter(
    ({ address, known, messages, pass }) =>
      address !== '' && messages - pass > (known === 'unknown' ? 0 : messages * FAILING),
  )
  const some = [
    failing.filter(({ known }) => known !== 'unknown'),
    failing.filter(({ known }) => known === 'unknown'),
  ].flatMap((list) => list.slice(0, SHOWN))
  const reported = namesOfSources(
    deps.store,
    domain.key,
    days,
    some.map(({ address }) => address),
  )
  return some.map(({ address, known, last_day, messages, name, pass }) => {
    // What one reporter alone says is shown with its name (DV53).
    const [reporter, ...more] = reported.get(address)?.reporters ?? []
    const by = reporter !== undefined && more.length === 0 ? `, as ${forLog(reporter, MAX_TEXT)} alone says` : ''
    const who = name === null ? KNOWN_AS[known] : forLog(name, MAX_TEXT)
    return {
      at: last_day * DAY,
      fact: known === 'unknown' ? 'unknown' : 'known',
      text: `${address} (${who}): ${(messages - pass).toLocaleString('en')} of ${messages.toLocaleString('en')} mails of ${PERIOD_DAYS} days fail DMARC${by}`,
      href: `/domains/${domain.name}/reports`,
    }
  })
}

/** Days on which encrypted connections that bring mail to the domain failed, as their senders report. */
function tlsRows(reader: Reader, { domain, now }: WhySubject): WhyRow[] {
  if (!domain) return []
  const today = Math.floor(now / DAY)
  return Array.from({ length: PERIOD_DAYS }, (_, back) => today - back).flatMap((day) => {
    const trouble = tlsTroubleOf(reader, domain, day)
    if (!trouble) return []
    const results = Object.entries(trouble.results).map(([result, times]) => `${result} × ${times}`)
    const text = `${dayText(day)}: ${trouble.failures} of ${trouble.sessions} connections failed${results.length === 0 ? '' : ` (${forLog(results.join(', '), MAX_TEXT)})`}`
    return [{ at: day * DAY, fact: 'failed', text, href: `/domains/${domain.name}/reports/tls` }]
  })
}

export const REPORT_SOURCES: readonly EvidenceSource[] = [
  { name: 'alarms', kinds: ['mail', 'domain', 'receiver'], ask: ({ store }, subject) => alarmRows(store, subject) },
  { name: 'SNDS', kinds: ['mail', 'receiver'], operator: true, ask: ({ store }, subject) => sndsRows(store, subject) },
  {
    name: 'Postmaster Tools',
    kinds: ['mail', 'domain', 'receiver'],
    ask: ({ store }, subject) => gmailRows(store, subject),
  },
  { name: 'DMARC reports', kinds: ['mail', 'domain'], ask: (deps, subject) => dmarcRows(deps, subject) },
  { name: 'TLS reports', kinds: ['domain'], ask: ({ store }, subject) => tlsRows(store, subject) },
]
