// Evidence from others: receiver alarms, and DMARC and TLS aggregate reports.
import { forLog } from '../base/clean-text.ts'
import { DAY, dayOf } from '../base/clock.ts'
import { alarmSentence } from '../reputation/alarm-words.ts'
import { PASSING, PERIOD_DAYS } from '../reports/evidence.ts'
import { namesOfSources, sourcesHere, type DmarcSource } from '../reports/sources.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { EvidenceSource, WhyDeps, WhyRow } from './evidence.ts'
import type { WhySubject } from './subject.ts'

const MAX_TEXT = 300
/** Rows of a source that are read at most. */
const MOST = 50
/** Sources that are shown. */
const SHOWN = 10

const json = (list: readonly unknown[]): string => JSON.stringify(list)

/** Open alarms of the receivers, or for a domain, of the receivers that had its mail. */
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
        [user_key, receiver, dayOf(created_at) - 1, domain?.key ?? 0],
      ),
    ) !== undefined
  return alarms
    .filter((alarm) => kind !== 'domain' || has(alarm))
    .map((alarm) => ({
      at: alarm.created_at,
      fact: alarm.kind,
      text: `${alarmSentence(alarm)}${alarm.words === null ? '' : ` Reply: ${forLog(alarm.words, MAX_TEXT)}`}`,
      href: `/receivers/${encodeURIComponent(alarm.receiver)}`,
    }))
}

const KNOWN_AS: Readonly<Record<DmarcSource['known'], string>> = {
  this_server: 'this server',
  relay: 'a relay',
  named: 'named',
  forwarder: 'a forwarder',
  unknown: 'unknown',
}

const daysOfWhy = (now: number) => ({ since: dayOf(now) - PERIOD_DAYS + 1, today: dayOf(now) })

/** Own sources whose email fails DMARC by authenticated reports. The page Reports also has unknown ones. */
function dmarcRows(deps: WhyDeps, { domain, now }: WhySubject): WhyRow[] {
  if (!domain) return []
  const days = daysOfWhy(now)
  const some = sourcesHere(deps, domain, days)
    .filter(({ address, known, messages, pass }) => address !== '' && known !== 'unknown' && pass < messages * PASSING)
    .slice(0, SHOWN)
  const reported = namesOfSources(
    deps.store,
    domain.key,
    days,
    some.map(({ address }) => address),
  )
  return some.map(({ address, known, last_day, messages, name, pass }) => {
    // The row names the reporter if it is the only one.
    const [reporter, ...more] = reported.get(address)?.reporters ?? []
    const by = reporter !== undefined && more.length === 0 ? `, reported only by ${forLog(reporter, MAX_TEXT)}` : ''
    const who = name === null ? KNOWN_AS[known] : forLog(name, MAX_TEXT)
    return {
      at: last_day * DAY,
      fact: 'failing',
      text: `${address} (${who}): ${(messages - pass).toLocaleString('en')} of ${messages.toLocaleString('en')} messages in ${PERIOD_DAYS} days fail DMARC${by}`,
      href: `/domains/${domain.name}/reports`,
    }
  })
}

export const REPORT_SOURCES: readonly EvidenceSource[] = [
  { name: 'alarms', kinds: ['email', 'domain', 'receiver'], ask: ({ store }, subject) => alarmRows(store, subject) },
  { name: 'DMARC reports', kinds: ['email', 'domain'], ask: (deps, subject) => dmarcRows(deps, subject) },
]
