// The results of email by receiver: a mailbox provider that config/shaping.toml knows by its MX hosts, otherwise the
// registrable domain of the MX host or of the recipient. Results are counted in the transaction that writes
// them, as tally.ts counts by sending domain. A past day is kept as one row for each receiver, with its hours as JSON,
// and the hours of the whole account are kept in `outcome_hours`.
import { DAY, dayOf, HOUR, MINUTE, SECOND, startOfDay } from '../base/clock.ts'
import { jsonOf } from '../base/json.ts'
import type { HourSpan } from '../base/zone.ts'
import { organisationalDomain } from '../message/address.ts'
import type { Verdict } from '../smtp/verdict.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw, statement } from '../store/query.ts'
import type { SumTable } from '../store/sums.ts'
import { domainOf } from '../message/lane-names.ts'
import { providerOf } from '../smtp/shaping.ts'
import { KEPT as KEPT_HOURS } from './tally.ts'

/**
 * The columns of delivered email, each with the longest time (ms) from acceptance to delivery. Before version 0.3.0
 * there were only the ranges of 5 s, 1 min, 10 min and 1 h, so sums up to one of these are right for older rows too.
 */
export const WITHIN = [
  ['within_5s', 5 * SECOND],
  ['within_15s', 15 * SECOND],
  ['within_1m', MINUTE],
  ['within_3m', 3 * MINUTE],
  ['within_10m', 10 * MINUTE],
  ['within_30m', 30 * MINUTE],
  ['within_1h', HOUR],
  ['within_3h', 3 * HOUR],
] as const
/** Characters of a refusal that are kept. */
const MAX_WORDS = 200
/** Maximum number of different replies that are kept per receiver and day, because their texts can always differ. */
const MAX_REFUSALS = 50

/** Longer than the longest period, which starts with a whole day. KEPT_HOURS is for the hours of an account. */
const KEPT = 32 * DAY

export interface ReceiverOutcome {
  email: { user_key: number; domain_key: number }
  delivery: { key: number; lane: string; attempts: number }
  verdict: Pick<Verdict, 'kind' | 'code' | 'enhanced' | 'text' | 'host'>
  /** Milliseconds since the mail was accepted. */
  age: number
}

const COUNTED = ['delivered', 'deferred', 'refused', 'complained', 'unmatched_complaints', 'tried', 'put_off'] as const
const TIMES = WITHIN.map(([column]) => column)

const TALLIES: SumTable = {
  table: 'receiver_tallies',
  by: ['user_key', 'hour', 'receiver'],
  of: [...COUNTED, ...TIMES],
}
const DOMAINS: SumTable = {
  table: 'receiver_domains',
  by: ['user_key', 'receiver', 'day', 'domain_key'],
  of: ['tried'],
}

/** The receiver of a domain's email, by the host that was reached, or by the domain if `host` is null. */
export const receiverOf = (host: string | null, domain: string): string =>
  providerOf(host) ?? (host === null ? undefined : organisationalDomain(host)) ?? organisationalDomain(domain) ?? domain

type ReceiverColumn = (typeof COUNTED)[number] | (typeof TIMES)[number]

function add(
  tx: Tx,
  [user, receiver]: [number, string],
  amounts: Partial<Record<ReceiverColumn, 1>>,
  now: number,
): void {
  const place = [user, Math.floor(now / HOUR), receiver]
  tx.add(
    TALLIES,
    place,
    [...COUNTED, ...TIMES].map((column) => amounts[column] ?? 0),
  )
}

/**
 * Counts one outcome: delivered, deferred, or refused (bounced, failed). Email that this server itself stopped or held
 * back is not counted. A recipient counts as tried, and as deferred, once a day (UTC).
 */
export function countReceiver(tx: Tx, { age, delivery, email, verdict }: ReceiverOutcome, now: number): void {
  const { host, kind } = verdict
  if (kind === 'waiting' || kind === 'rejected' || kind === 'suppressed') return
  const receiver = receiverOf(host, domainOf(delivery.lane))
  const range = kind === 'delivered' ? WITHIN.find(([, most]) => age <= most)?.[0] : undefined
  const first = !triedToday(tx, delivery, now)
  add(
    tx,
    [email.user_key, receiver],
    {
      [kind === 'delivered' || kind === 'deferred' ? kind : 'refused']: 1,
      ...(range && { [range]: 1 }),
      ...(first && { tried: 1 }),
      ...(first && kind === 'deferred' && { put_off: 1 }),
    },
    now,
  )
  if (first) tx.add(DOMAINS, [email.user_key, receiver, dayOf(now), email.domain_key], [1])
  if (kind !== 'delivered') noteRefusal(tx, email.user_key, receiver, verdict, now)
}

const earlierAttempt = statement<{ delivery_key: number; number: number; since: number }>()((arg) =>
  db
    .selectFrom('attempts')
    .select('key')
    .where('delivery_key', '=', arg.delivery_key)
    .where('number', '<', arg.number)
    .where('at', '>=', arg.since)
    .limit(1),
)

/** Whether an earlier attempt of the delivery was made on the same day. */
const triedToday = (tx: Tx, { attempts, key }: ReceiverOutcome['delivery'], now: number): boolean =>
  attempts > 1 &&
  tx.first(earlierAttempt({ delivery_key: key, number: attempts, since: startOfDay(now) })) !== undefined

/** Counts a complaint about an email, at the receiver that accepted it. */
export const countComplaint = (tx: Tx, userKey: number, receiver: string, now: number): void =>
  add(tx, [userKey, receiver], { complained: 1 }, now)

/** Counts a verified complaint without a recipient of this server, at the receiver that reported it. */
export const countUnmatched = (tx: Tx, userKey: number, receiver: string, now: number): void =>
  add(tx, [userKey, receiver], { unmatched_complaints: 1 }, now)

/** The text of a receiver without the parts that belong to one mail only: addresses, long numbers and ids. */
export function wordsOf({ code, enhanced, text }: Pick<Verdict, 'code' | 'enhanced' | 'text'>): string {
  const cleaned = text
    .replaceAll(/<?[^\s<>@]+@[^\s<>@]+>?/g, '<address>')
    .replaceAll(/\b(?=[\w-]*\d)[\w-]{10,}\b/g, '…')
    .replaceAll(/\s+/g, ' ')
    .trim()
  return [code, enhanced, cleaned]
    .filter((part) => part !== null && part !== '')
    .join(' ')
    .slice(0, MAX_WORDS)
}

function noteRefusal(
  tx: Tx,
  userKey: number,
  receiver: string,
  verdict: ReceiverOutcome['verdict'],
  now: number,
): void {
  const day = dayOf(now)
  const of = [userKey, day, receiver]
  const words = wordsOf(verdict)
  const counted = tx.run(
    raw('update refusals set times = times + 1 where user_key = ? and day = ? and receiver = ? and words = ?', [
      ...of,
      words,
    ]),
  ).changes
  if (counted > 0) return
  tx.run(
    raw(
      `insert into refusals (user_key, day, receiver, words, times)
         select ?, ?, ?, ?, 1 where (select count(*) from refusals where user_key = ? and day = ? and receiver = ?) < ${MAX_REFUSALS}`,
      [...of, words, ...of],
    ),
  )
}

export type ReceiverSums = Record<ReceiverColumn, number>
export type ReceiverFigures = ReceiverSums & { receiver: string }

const SUMMED = TALLIES.of
const sums = SUMMED.map((name) => `sum(${name}) as ${name}`).join(', ')
/** The figures of a receiver without email. */
export const NO_FIGURES = Object.fromEntries(SUMMED.map((name) => [name, 0])) as ReceiverSums

/** Names of the receivers of a user's email since a time (ms), most email first. */
export const receiversOf = (
  reader: Reader,
  { since, userKey }: { userKey: number; since: number },
  most: number,
): string[] =>
  reader
    .all(
      raw<{ receiver: string }>(
        `select receiver, sum(delivered + deferred + refused) as outcomes from receiver_tallies
         where user_key = ? and hour >= ? and (hour >= ? or hours is not null)
         group by receiver order by outcomes desc, receiver limit ?`,
        [userKey, dayOf(since) * 24, Math.floor(since / HOUR), most],
      ),
    )
    .map(({ receiver }) => receiver)

export function sumOf(hours: readonly HourOfReceiver[]): ReceiverSums {
  const sum = { ...NO_FIGURES }
  for (const each of hours) for (const name of SUMMED as ReceiverColumn[]) sum[name] += each[name]
  return sum
}

/** The figures of an account's receivers in the hours from `from` on and before `until`, by receiver. */
export function figuresBetween(
  reader: Reader,
  { from, until, userKey }: { userKey: number; from: number; until: number },
): Map<string, ReceiverFigures> {
  const rows = reader.all(
    raw<ReceiverFigures>(
      `select receiver, ${sums} from receiver_tallies where user_key = ? and hour >= ? and hour < ? group by receiver`,
      [userKey, from, until],
    ),
  )
  return new Map(rows.map((row) => [row.receiver, row]))
}

/**
 * This part of the delivered email took no longer than this (seconds), if the email of a range is spread evenly over
 * it. Longer times count as three hours. Null if there are no deliveries.
 */
export function secondsWithin({ delivered, ...figures }: ReceiverSums, part: number): number | null {
  if (delivered === 0) return null
  let below = 0
  let begin = 0
  for (const [column, end] of WITHIN) {
    const here = figures[column]
    if (here > 0 && below + here >= delivered * part)
      return (begin + ((end - begin) * (delivered * part - below)) / here) / SECOND
    below += here
    begin = end
  }
  return begin / SECOND
}

export const medianSeconds = (sums: ReceiverSums): number | null => secondsWithin(sums, 0.5)

/** Sending domains of an account that had mail for a receiver since a time (ms), and were not removed. */
export const domainsWithMail = (reader: Reader, userKey: number, receiver: string, since: number): number[] =>
  reader
    .all(
      raw<{ key: number }>(
        `select distinct d.key as key from receiver_domains r join domains d on d.key = r.domain_key
         where r.user_key = ? and r.receiver = ? and r.day >= ? and d.deleted_at is null order by d.key`,
        [userKey, receiver, dayOf(since)],
      ),
    )
    .map(({ key }) => key)

/** The most frequent replies of a receiver between two times (ms). Each day is looked up by the key of the table. */
export function commonRefusals(
  reader: Reader,
  { receiver, since, until, userKey }: { userKey: number; receiver: string; since: number; until: number },
  most: number,
): { words: string; times: number }[] {
  return reader.all(
    raw<{ words: string; times: number }>(
      `with recursive days(day) as (select ? union all select day + 1 from days where day < ?)
       select words, sum(times) as times from refusals
       where user_key = ? and day in (select day from days) and receiver = ?
       group by words order by sum(times) desc, words limit ?`,
      [dayOf(since), dayOf(until), userKey, receiver, most],
    ),
  )
}

export interface HourOfOutcomes {
  hour: number
  delivered: number
  deferred: number
  refused: number
}

/** The figures of a receiver in an hour. Before version 0.3.0, a past day had only its sum, in its first hour. */
export type HourOfReceiver = ReceiverFigures & { hour: number }

/**
 * The figures of a row in two parts, if a day of the reader (`starts`, in hours) starts inside the day of the row.
 * Counts that are in none of its hours belong to its first hour.
 */
function partsOfRow({ hours, ...row }: HourOfReceiver & { hours: string | null }, starts: readonly number[]) {
  const cut = starts.find((start) => start > row.hour)
  if (hours === null || cut === undefined || cut >= row.hour + 24) return [row]
  const later: HourOfReceiver = { ...NO_FIGURES, receiver: row.receiver, hour: cut }
  for (const [hour, values] of Object.entries((jsonOf(hours) ?? {}) as Record<string, number[]>))
    if (row.hour + Number(hour) >= cut)
      for (const [at, name] of (SUMMED as ReceiverColumn[]).entries()) later[name] += values[at] ?? 0
  for (const name of SUMMED as ReceiverColumn[]) row[name] -= later[name]
  return [row, later]
}

/** The figures of some receivers by hour, for these hours or days: few rows of many, found by the name. */
export function outcomesOf(
  reader: Reader,
  { receivers, spans, userKey }: { userKey: number; spans: readonly HourSpan[]; receivers: readonly string[] },
): Map<string, HourOfReceiver[]> {
  const starts = spans.map(({ from }) => from)
  const [from = 0] = starts
  const rows = reader.all(
    raw<HourOfReceiver & { hours: string | null }>(
      `select receiver, hour, hours, ${SUMMED.join(', ')} from receiver_tallies
       indexed by receiver_tallies_by_receiver
       where user_key = ? and hour >= ? and receiver in (select value from json_each(?))`,
      [userKey, from - (from % 24), JSON.stringify(receivers)],
    ),
  )
  const hours = rows.flatMap((row) => partsOfRow(row, starts)).filter(({ hour }) => hour >= from)
  return Map.groupBy(hours, ({ receiver }) => receiver)
}

const OUTCOMES = 'sum(delivered) as delivered, sum(deferred) as deferred, sum(refused) as refused'
/** The last hour of an account in `outcome_hours`. Later hours are in `receiver_tallies`. */
const SETTLED = 'coalesce((select max(hour) from outcome_hours where user_key = ?), -1)'

/** The outcomes by hour, for all receivers together, for a chart. */
export function outcomesByHour(reader: Reader, userKey: number, from: number): HourOfOutcomes[] {
  return reader.all(
    raw<HourOfOutcomes>(
      `select hour, delivered, deferred, refused from outcome_hours where user_key = ? and hour >= ?
       union all select hour, ${OUTCOMES} from receiver_tallies
       where user_key = ? and hour >= ? and hour > ${SETTLED} group by hour`,
      [userKey, from, userKey, from, userKey],
    ),
  )
}

/** The time before which an account has only whole days (UTC), because version 0.2.0 stored them, or null. */
export function utcDaysBefore(reader: Reader, userKey: number, zone: string, since: number): number | null {
  if (zone === 'UTC') return null
  const { utc_days_before: before } = reader.one(
    db.selectFrom('users').select('utc_days_before').where('key', '=', userKey),
  )
  return before !== null && before > since ? before : null
}

/**
 * Deletes figures that are older than every period. The hours of each day that ended at least a day ago are summed per
 * account, and added to the day's first hour, so that lists read few rows. Each transaction moves one hour of one
 * account, in their order.
 */
export async function settleReceivers(store: Store, now: number): Promise<void> {
  for (const { key } of store.all(db.selectFrom('users').select('key')))
    for (const { hour } of store.all(
      raw<{ hour: number }>(
        `select distinct hour from receiver_tallies where user_key = ? and hour > ${SETTLED} and hour < ? order by hour`,
        [key, key, dayOf(now - DAY) * 24],
      ),
    ))
      await store.writeSoon((tx) => settleHour(tx, key, hour))
  await store.writeSoon((tx) => forgetReceivers(tx, now))
}

const ADDED = SUMMED.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')

function settleHour(tx: Tx, userKey: number, hour: number): void {
  const of = 'from receiver_tallies where user_key = ? and hour = ?'
  tx.run(raw(`insert into outcome_hours select user_key, hour, ${OUTCOMES} ${of} group by hour`, [userKey, hour]))
  if (hour % 24 === 0) return
  const figures = `json_array(${SUMMED.join(', ')})`
  tx.run(
    raw(
      `insert into receiver_tallies (user_key, receiver, hour, hours, ${SUMMED.join(', ')})
       select user_key, receiver, ?, json_object(?, ${figures}), ${SUMMED.join(', ')} ${of}
       on conflict (user_key, hour, receiver) do update
       set hours = json_patch(coalesce(hours, '{}'), excluded.hours), ${ADDED}`,
      [hour - (hour % 24), String(hour % 24), userKey, hour],
    ),
  )
  tx.run(raw(`delete ${of}`, [userKey, hour]))
}

function forgetReceivers(tx: Tx, now: number): void {
  const before = startOfDay(now - KEPT)
  tx.run(raw('delete from outcome_hours where hour < ?', [Math.floor((now - KEPT_HOURS) / HOUR)]))
  tx.run(raw('delete from receiver_tallies where hour < ?', [Math.floor(before / HOUR)]))
  tx.run(raw('delete from refusals where day < ?', [dayOf(before)]))
  tx.run(raw('delete from receiver_domains where day < ?', [dayOf(before)]))
}
