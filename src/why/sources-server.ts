// What is known of this server: its warm-up, and what the watch of blocklists and reverse DNS found. These are the
// operator's (DV95); the owner of a mail hears of warm-up as far as the mail waits for it.
import { forLog } from '../base/clean-text.ts'
import { DAY } from '../base/clock.ts'
import { boundTo, domainInSql, relayIn } from '../message/lane-names.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { TOTAL } from '../warmup/ladder.ts'
import { pairsOfReceivers, receiversOf, waitingByReceiver, type UsedPair } from '../warmup/shown.ts'
import { TRACKING_LABEL } from '../domains/records.ts'
import { explained, listShown } from '../watch/words.ts'
import { moment, type EvidenceSource, type WhyDeps, type WhyRow } from './evidence.ts'
import type { WhySubject } from './subject.ts'

const MAX_TEXT = 300
/** Waiting mails of an account that are looked at, the newest; changes of a watch that are read. */
const LOOKED_AT = 10_000
const CHANGES = 20

/** What delivery writes to mail that waits for its warm-up (delivery/warming.ts). */
const WAITS = 'warm-up: '

export const waitsForWarmup = ({ response, status }: Pick<RowOf<'deliveries'>, 'response' | 'status'>): boolean =>
  status === 'queued' && response !== null && response.startsWith(WAITS)

const waitingMails = ({ mails }: WhySubject): WhyRow[] =>
  mails.flatMap(({ deliveries, id }) =>
    deliveries.filter(waitsForWarmup).map(({ address, next_attempt_at, response, updated_at }) => ({
      at: updated_at,
      fact: 'waits',
      text: `${forLog(address)} waits${next_attempt_at === null ? '' : ` until ${moment(next_attempt_at)}`}: ${forLog(response ?? '', MAX_TEXT)}`,
      href: `/mail/${id}`,
    })),
  )

/** Mail of an account that waits for the warm-up of some receiving domains. */
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

/** Mail for a receiver that waits for its warm-up. */
function waitingFor(reader: Reader, { accounts, domains, everywhere, name, now }: WhySubject): WhyRow[] {
  if (everywhere) return waitingAt(name, waitingByReceiver(reader).get(name) ?? 0, now)
  const all = accounts.map((account) => waitingOf(reader, account, domains)).filter(({ times }) => times > 0)
  const times = all.reduce((sum, each) => sum + each.times, 0)
  return times === 0 ? [] : waitingAt(name, times, now, ` until ${moment(Math.min(...all.map((each) => each.next)))}`)
}

function waitingAt(name: string, times: number, now: number, until = ''): WhyRow[] {
  if (times === 0) return []
  const text = `${times.toLocaleString('en')} ${times === 1 ? 'recipient waits' : 'recipients wait'} for warm-up at ${name}${until}`
  return [{ at: now - (now % DAY), fact: 'waits', text, href: `/receivers/${encodeURIComponent(name)}` }]
}

/** What a pair says that is not going well, or has nothing left today. */
function pairRow({ allowance, id, left, next_at, reason, receiver, since, source, state, used }: UsedPair): WhyRow[] {
  const full = left === 0 || next_at !== null
  if (state !== 'back' && state !== 'holding' && !full) return []
  const to = receiver === TOTAL ? 'all receivers' : receiver
  const figures = allowance === null ? '' : `, ${used} of ${allowance} recipients tried today`
  const text = `${source} to ${to}: ${state}${figures}${reason === null ? '' : `; ${forLog(reason, MAX_TEXT)}`}`
  return [
    { at: since, fact: state === 'back' || state === 'holding' ? state : 'full', text, href: `/server/warmup/${id}` },
  ]
}

const warmupRows: EvidenceSource['ask'] = ({ config, store }, subject) => {
  const { domains, kind, now, operator, receivers } = subject
  const waiting = kind === 'mail' ? waitingMails(subject) : waitingFor(store, subject)
  const learned = receiversOf(store, domains).values()
  const names = [...new Set([...receivers, ...learned, TOTAL])].filter((name) => name !== '')
  const pairs = pairsOfReceivers({ config, store }, now, names)
  if (!pairs) return waiting.length === 0 ? 'off' : waiting
  // The pairs are the operator's.
  return operator ? [...waiting, ...pairs.flatMap(pairRow)] : waiting
}

/** By which way mail goes that was bound to one. */
const wayRows: EvidenceSource['ask'] = (_, { mails }) =>
  mails.flatMap(({ deliveries, id }) =>
    deliveries.flatMap(({ address, lane, status, updated_at }) => {
      const way = boundTo(lane)
      if (way === undefined) return []
      const relay = relayIn(lane)
      const row = { at: updated_at, href: `/mail/${id}` }
      if (relay === undefined) return [{ ...row, fact: 'source', text: `${forLog(address)} goes from ${way}` }]
      const fact = status === 'queued' || status === 'active' ? 'relay' : 'relayed'
      return [{ ...row, fact, text: `${forLog(address)} goes by the relay ${relay}, because warm-up had no room` }]
    }),
  )

/** The addresses of this server with what lists and reverse DNS say, and the names of the sending domain. */
function watchesOf({ store }: WhyDeps, { domain }: WhySubject): RowOf<'watches'>[] {
  const names = domain ? [domain.name, `${TRACKING_LABEL}.${domain.name}`] : []
  return store.all(
    raw<RowOf<'watches'>>(
      `select * from watches where left_at is null and kind in ('blocklist', 'reverse', 'forward')
       union all select * from watches where left_at is null and kind = 'domain_list'
         and subject in (select value from json_each(?))
       order by kind, subject, list`,
      [JSON.stringify(names)],
    ),
  )
}

/** When it was listed, of what is not listed any more. */
const wasListed = (reader: Reader, watch: RowOf<'watches'>, since: number): WhyRow[] =>
  reader
    .all(
      raw<Pick<RowOf<'watch_changes'>, 'at'>>(
        `select at from watch_changes where watch_key = ? and previous_state = 'listed' and at >= ?
         order by key desc limit ${CHANGES}`,
        [watch.key, since],
      ),
    )
    .map(({ at }) => ({
      at,
      fact: 'was listed',
      text: `${watch.subject} was on ${listShown(watch.list)} until ${moment(at)}`,
      href: '/server/watch',
    }))

const watchRows: EvidenceSource['ask'] = (deps, subject) => {
  const watches = watchesOf(deps, subject)
  if (watches.every(({ checked_at }) => checked_at === null)) return 'off'
  return watches.flatMap((watch): WhyRow[] => {
    const { kind, since, status } = watch
    const row = { at: since, text: explained(watch).words, href: '/server/watch' }
    if (status === 'listed') return [{ ...row, fact: kind === 'domain_list' ? 'domain listed' : 'listed' }]
    if (status === 'wrong') return [{ ...row, fact: 'wrong' }]
    return wasListed(deps.store, watch, subject.since)
  })
}

export const SERVER_SOURCES: readonly EvidenceSource[] = [
  { name: 'warm-up', kinds: ['mail', 'receiver'], ask: warmupRows },
  { name: 'way', kinds: ['mail'], ask: wayRows },
  { name: 'watch', kinds: ['mail', 'domain', 'receiver'], operator: true, ask: watchRows },
]
