// Evidence about this server: warm-up, blocklists and reverse DNS. Only operators see it, except for warm-up that
// delays an email of the account.
import { countedGrouped } from '../base/text.ts'
import { forLog } from '../base/clean-text.ts'
import { DAY } from '../base/clock.ts'
import { boundTo, domainInSql, relayIn } from '../message/lane-names.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { TOTAL } from '../warmup/schedule.ts'
import { receiversOf } from '../warmup/pairs.ts'
import { usedPairs, waitingByReceiver, type UsedPair } from '../warmup/shown.ts'
import { TRACKING_LABEL } from '../domains/records.ts'
import { problemsIn } from '../watch/findings.ts'
import { explained } from '../watch/words.ts'
import { moment, type EvidenceSource, type WhyDeps, type WhyRow } from './evidence.ts'
import type { WhySubject } from './subject.ts'

const MAX_TEXT = 300
/** The most queued emails of an account that are read, the newest. */
const LOOKED_AT = 10_000

/** The start of the text of email that warm-up delays. */
const WAITS = 'warm-up: '

export const waitsForWarmup = ({ response, status }: Pick<RowOf<'deliveries'>, 'response' | 'status'>): boolean =>
  status === 'queued' && response !== null && response.startsWith(WAITS)

const waitingMails = ({ mails }: WhySubject): WhyRow[] =>
  mails.flatMap(({ deliveries, id }) =>
    deliveries.filter(waitsForWarmup).map(({ address, next_attempt_at, response, updated_at }) => ({
      at: updated_at,
      fact: 'waits',
      text: `${forLog(address)} queued${next_attempt_at === null ? '' : ` until ${moment(next_attempt_at)}`}: ${forLog(response ?? '', MAX_TEXT)}`,
      href: `/mail/${id}`,
    })),
  )

/** Email of an account that warm-up delays, for some recipient domains. */
const waitingOf = (reader: Reader, account: number, domains: readonly string[]): { times: number; next: number } =>
  reader.one(
    raw<{ times: number; next: number }>(
      `select count(*) as times, coalesce(min(v.next_attempt_at), 0) as next
       from (select key from outbound_emails where user_key = ? and status = 'queued' order by created_at desc limit ${LOOKED_AT}) e
         join deliveries v on v.email_key = e.key
       where v.status = 'queued' and v.response >= 'warm-up:' and v.response < 'warm-up;'
         and ${domainInSql('v.lane')} in (select value from json_each(?))`,
      [account, JSON.stringify(domains)],
    ),
  )

/** Email for a receiver that warm-up delays. */
function waitingFor(reader: Reader, { accounts, domains, everywhere, name, now, receivers }: WhySubject): WhyRow[] {
  if (everywhere) {
    const waiting = waitingByReceiver(reader)
    return receivers.flatMap((receiver) => waitingAt(receiver, waiting.get(receiver) ?? 0, now))
  }
  const all = accounts.map((account) => waitingOf(reader, account, domains)).filter(({ times }) => times > 0)
  const times = all.reduce((sum, each) => sum + each.times, 0)
  return times === 0 ? [] : waitingAt(name, times, now, ` until ${moment(Math.min(...all.map((each) => each.next)))}`)
}

function waitingAt(name: string, times: number, now: number, until = ''): WhyRow[] {
  if (times === 0) return []
  const text = `${countedGrouped(times, 'recipient')} at ${name} queued by the warm-up limit${until}`
  return [{ at: now - (now % DAY), fact: 'waits', text, href: `/receivers/${encodeURIComponent(name)}` }]
}

/** A pair whose limit was reduced, does not rise, or is used up. */
function pairRow({
  daily_limit,
  id,
  remaining,
  next_at,
  reason,
  receiver,
  since,
  source,
  state,
  used,
}: UsedPair): WhyRow[] {
  const full = remaining === 0 || next_at !== null
  if (state !== 'reduced' && state !== 'holding' && !full) return []
  const to = receiver === TOTAL ? 'all providers' : receiver
  const figures = daily_limit === null ? '' : `, ${used} of ${daily_limit} recipients tried today`
  const text = `${source} to ${to}: ${state}${figures}${reason === null ? '' : `. ${forLog(reason, MAX_TEXT)}`}`
  return [
    {
      at: since,
      fact: state === 'reduced' || state === 'holding' ? state : 'full',
      text,
      href: `/server/warmup/${id}`,
    },
  ]
}

const warmupRows: EvidenceSource['ask'] = ({ config, store }, subject) => {
  const { domains, kind, now, operator, receivers } = subject
  const waiting = kind === 'email' ? waitingMails(subject) : waitingFor(store, subject)
  const learned = receiversOf(store, domains).values()
  const names = [...new Set([...receivers, ...learned, TOTAL])].filter((name) => name !== '')
  if (!config.warmup.enabled) return waiting.length === 0 ? 'off' : waiting
  // Only operators see the pairs.
  return operator ? [...waiting, ...usedPairs({ config, store }, now, { receiver: names }).flatMap(pairRow)] : waiting
}

/** The sending IP address or relay of email that is bound to one. */
const wayRows: EvidenceSource['ask'] = (_, { mails }) =>
  mails.flatMap(({ deliveries, id }) =>
    deliveries.flatMap(({ address, lane, status, updated_at }) => {
      const way = boundTo(lane)
      if (way === undefined) return []
      const relay = relayIn(lane)
      const row = { at: updated_at, href: `/mail/${id}` }
      if (relay === undefined) return [{ ...row, fact: 'source', text: `${forLog(address)} goes from ${way}` }]
      const fact = status === 'queued' || status === 'active' ? 'relay' : 'relayed'
      return [
        {
          ...row,
          fact,
          text: `${forLog(address)} is sent through the relay ${relay}, because the warm-up limit was reached`,
        },
      ]
    }),
  )

/** The checks of the IP addresses of this server and of the sending domain. */
function watchesOf({ store }: WhyDeps, { domain }: WhySubject): RowOf<'watches'>[] {
  const names = domain ? [domain.name, `${TRACKING_LABEL}.${domain.name}`] : []
  return store.all(
    raw<RowOf<'watches'>>(
      `select * from watches where kind in ('blocklist', 'reverse', 'forward')
       union all select * from watches where kind = 'domain_list'
         and subject in (select value from json_each(?))
       order by kind, subject, list`,
      [JSON.stringify(names)],
    ),
  )
}

const FACTS: Readonly<Record<RowOf<'watches'>['kind'], string>> = {
  blocklist: 'listed',
  domain_list: 'domain listed',
  reverse: 'wrong',
  forward: 'wrong',
}

const watchRows: EvidenceSource['ask'] = (deps, subject) => {
  const watches = watchesOf(deps, subject)
  if (watches.every(({ checked_at }) => checked_at === null)) return 'off'
  return problemsIn(watches).map((watch) => ({
    at: watch.since,
    fact: FACTS[watch.kind],
    text: explained(watch).words,
    href: '/server/watch',
  }))
}

export const SERVER_SOURCES: readonly EvidenceSource[] = [
  { name: 'warm-up', kinds: ['email', 'receiver'], ask: warmupRows },
  { name: 'way', kinds: ['email'], ask: wayRows },
  { name: 'watch', kinds: ['email', 'domain', 'receiver'], operator: true, ask: watchRows },
]
