// The results of mail by receiver: a mailbox provider that config/shaping.toml knows by its exchangers, else the
// registrable domain of the exchanger, else that of the recipient. Results are counted in the transaction that writes
// them, as tally.ts counts by sending domain. A day that is over is kept as one row for each receiver.
import { DAY, HOUR, MINUTE, SECOND } from '../base/clock.ts'
import { organisationalDomain } from '../message/address.ts'
import type { Verdict } from '../smtp/verdict.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw, statement } from '../store/query.ts'
import type { SumTable } from '../store/sums.ts'
import { domainOf } from '../message/lane-names.ts'
import { providerOf } from '../smtp/shaping.ts'

/**
 * The columns of delivered mails, each with the longest time (ms) from acceptance to delivery. Before version 0.3.0
 * there were the ranges of 5 s, 1 min, 10 min and 1 h alone: the sums up to one of these are right for older rows too.
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
/** The most different refusals of one receiver that are kept for a day: texts that always differ must fill no table. */
const MAX_REFUSALS = 50

/** Longer than the longest period, which begins with a whole day. */
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

/** The receiver of mail for a domain, by the exchanger that was reached; null: none was. */
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
 * Counts one outcome: delivered, deferred, or refused (bounced, failed). Mail that this server itself stopped or held
 * back is not counted. A recipient counts as tried, and as put off, once a day (UTC).
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
  if (first) tx.add(DOMAINS, [email.user_key, receiver, Math.floor(now / DAY), email.domain_key], [1])
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
  tx.first(earlierAttempt({ delivery_key: key, number: attempts, since: Math.floor(now / DAY) * DAY })) !== undefined

/** Counts a complaint about a mail, at the receiver that took it. */
export const countComplaint = (tx: Tx, userKey: number, receiver: string, now: number): void =>
  add(tx, [userKey, receiver], { complained: 1 }, now)

/** Counts a proven complaint that names no recipient of ours, at whoever reported it. */
export const countUnmatched = (tx: Tx, userKey: number, receiver: string, now: number): void =>
  add(tx, [userKey, receiver], { unmatched_complaints: 1 }, now)

/** The text of a receiver without the parts that belong to one mail only: addresses, long numbers and ids. */
export function wordsOf({ code, enhanced, text }: Pick<Verdict, 'code' | 'enhanced' | 'text'>): string {
  const said = text
    .replaceAll(/<?[^\s<>@]+@[^\s<>@]+>?/g, '<address>')
    .replaceAll(/\b(?=[\w-]*\d)[\w-]{10,}\b/g, '…')
    .replaceAll(/\s+/g, ' ')
    .trim()
  return [code, enhanced, said]
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
  const day = Math.floor(now / DAY)
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
/** The figures of a receiver without mail. */
export const NO_FIGURES = Object.fromEntries(SUMMED.map((name) => [name, 0])) as ReceiverSums

/** Names of the receivers of a user's mail since a time (ms), those with most mail first. */
export const receiversOf = (
  reader: Reader,
  { since, userKey }: { userKey: number; since: number },
  most: number,
): string[] =>
  reader
    .all(
      raw<{ receiver: string }>(
        `select receiver, sum(delivered + deferred + refused) as outcomes from receiver_tallies
         where user_key = ? and hour >= ? group by receiver order by outcomes desc, receiver limit ?`,
        [userKey, Math.floor(since / HOUR), most],
      ),
    )
    .map(({ receiver }) => receiver)

/** The sums of a receiver's hours. */
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
 * Half of the delivered mail took no longer than this (seconds), as if the mail of a range were spread evenly over it;
 * what took longer than three hours counts as three hours. Null: nothing was delivered.
 */
export function medianSeconds({ delivered, ...figures }: ReceiverSums): number | null {
  if (delivered === 0) return null
  let below = 0
  let begin = 0
  for (const [column, end] of WITHIN) {
    const here = figures[column]
    if (here > 0 && below + here >= delivered / 2)
      return (begin + ((end - begin) * (delivered / 2 - below)) / here) / SECOND
    below += here
    begin = end
  }
  return begin / SECOND
}

/** Sending domains of an account that had mail for a receiver since a time (ms), and were not removed. */
export const domainsWithMail = (reader: Reader, userKey: number, receiver: string, since: number): number[] =>
  reader
    .all(
      raw<{ key: number }>(
        `select distinct d.key as key from receiver_domains r join domains d on d.key = r.domain_key
         where r.user_key = ? and r.receiver = ? and r.day >= ? and d.deleted_at is null order by d.key`,
        [userKey, receiver, Math.floor(since / DAY)],
      ),
    )
    .map(({ key }) => key)

/** The most frequent refusals of a receiver between two times (ms). Each day is looked up by the key of the table. */
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
      [Math.floor(since / DAY), Math.floor(until / DAY), userKey, receiver, most],
    ),
  )
}

export interface HourOfOutcomes {
  hour: number
  delivered: number
  deferred: number
  refused: number
}

/** The figures of a receiver in an hour, or in a day that is over. */
export type HourOfReceiver = ReceiverFigures & { hour: number }

/** The figures of some receivers by hour: few rows of many, found by the name. */
export function outcomesOf(
  reader: Reader,
  { receivers, since, userKey }: { userKey: number; since: number; receivers: readonly string[] },
): Map<string, HourOfReceiver[]> {
  const rows = reader.all(
    raw<HourOfReceiver>(
      `select receiver, hour, ${SUMMED.join(', ')} from receiver_tallies indexed by receiver_tallies_by_receiver
       where user_key = ? and hour >= ? and receiver in (select value from json_each(?))`,
      [userKey, Math.floor(since / HOUR), JSON.stringify(receivers)],
    ),
  )
  return Map.groupBy(rows, ({ receiver }) => receiver)
}

/** The outcomes by hour, for all receivers together, for a chart. */
export function outcomesByHour(reader: Reader, userKey: number, since: number): HourOfOutcomes[] {
  return reader.all(
    raw<HourOfOutcomes>(
      `select hour, sum(delivered) as delivered, sum(deferred) as deferred, sum(refused) as refused
       from receiver_tallies where user_key = ? and hour >= ? group by hour order by hour`,
      [userKey, Math.floor(since / HOUR)],
    ),
  )
}

/**
 * Deletes figures that are older than every period, and adds the hours of each day that ended at least a day ago to the
 * day's first hour: from then on only whole days are queried. Each transaction moves one hour of one account.
 */
export async function settleReceivers(store: Store, now: number): Promise<void> {
  await store.writeSoon((tx) => forgetReceivers(tx, Math.floor((now - KEPT) / DAY) * DAY))
  const hours = store.all(
    raw<{ user_key: number; hour: number }>(
      'select distinct user_key, hour from receiver_tallies where hour < ? and hour % 24 <> 0',
      [Math.floor((now - DAY) / DAY) * 24],
    ),
  )
  for (const { hour, user_key } of hours)
    await store.writeSoon((tx) => {
      tx.run(
        raw(
          `insert into receiver_tallies (user_key, receiver, hour, ${SUMMED.join(', ')})
           select user_key, receiver, ?, ${SUMMED.join(', ')} from receiver_tallies where user_key = ? and hour = ?
           on conflict (user_key, hour, receiver) do update set ${SUMMED.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')}`,
          [hour - (hour % 24), user_key, hour],
        ),
      )
      tx.run(raw('delete from receiver_tallies where user_key = ? and hour = ?', [user_key, hour]))
    })
}

function forgetReceivers(tx: Tx, before: number): void {
  tx.run(raw('delete from receiver_tallies where hour < ?', [Math.floor(before / HOUR)]))
  tx.run(raw('delete from refusals where day < ?', [Math.floor(before / DAY)]))
  tx.run(raw('delete from receiver_domains where day < ?', [Math.floor(before / DAY)]))
}
