// The results of mail by receiver: a mailbox provider that config/shaping.toml knows by its exchangers, else the
// receiving domain. Results are counted in the transaction that writes them, as tally.ts counts by sending domain. A
// day that is over is kept as one row for each receiver.
import { DAY, HOUR, MINUTE, SECOND } from '../base/clock.ts'
import type { Verdict } from '../smtp/verdict.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { SumTable } from '../store/sums.ts'
import { domainOf } from '../message/lane-names.ts'
import { providerOf } from '../smtp/shaping.ts'

/** The columns of delivered mails, each with the longest time (ms) from acceptance to delivery. */
const WITHIN = [
  ['within_5s', 5 * SECOND],
  ['within_1m', MINUTE],
  ['within_10m', 10 * MINUTE],
  ['within_1h', HOUR],
] as const
/** Characters of a refusal that are kept. */
const MAX_WORDS = 200
/** The most different refusals of one receiver that are kept for a day: texts that always differ must fill no table. */
const MAX_REFUSALS = 50

/** Longer than the longest period, which begins with a whole day. */
const KEPT = 32 * DAY

export interface ReceiverOutcome {
  user_key: number
  lane: string
  verdict: Pick<Verdict, 'kind' | 'code' | 'enhanced' | 'text' | 'host'>
  /** Milliseconds since the mail was accepted. */
  age: number
}

const TALLIES: SumTable = {
  table: 'receiver_tallies',
  by: ['user_key', 'hour', 'receiver'],
  of: ['delivered', 'deferred', 'refused', ...WITHIN.map(([column]) => column)],
}

/**
 * Counts one outcome: delivered, deferred, or refused (bounced, failed). Mail that this server itself stopped is not
 * counted.
 */
export function countReceiver(tx: Tx, { age, lane, user_key, verdict }: ReceiverOutcome, now: number): void {
  const { host, kind } = verdict
  if (kind === 'waiting' || kind === 'rejected' || kind === 'suppressed') return
  const receiver = providerOf(host) ?? domainOf(lane)
  const column = kind === 'delivered' ? WITHIN.find(([, most]) => age <= most)?.[0] : undefined
  const flag = (yes: boolean): 0 | 1 => (yes ? 1 : 0)
  tx.add(
    TALLIES,
    [user_key, Math.floor(now / HOUR), receiver],
    [
      flag(kind === 'delivered'),
      flag(kind === 'deferred'),
      flag(kind === 'bounced' || kind === 'failed'),
      ...WITHIN.map(([name]) => flag(name === column)),
    ],
  )
  if (kind !== 'delivered') noteRefusal(tx, user_key, receiver, verdict, now)
}

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

export interface ReceiverFigures {
  receiver: string
  delivered: number
  deferred: number
  refused: number
  within_5s: number
  within_1m: number
  within_10m: number
  within_1h: number
}

/** Receivers of a user's mail since a time (ms), those with most mail first; `only`: this one. */
export function receiverFigures(
  reader: Reader,
  { only, since, userKey }: { userKey: number; since: number; only?: string },
  most: number,
): ReceiverFigures[] {
  return reader.all(
    raw<ReceiverFigures>(
      `select receiver, sum(delivered) as delivered, sum(deferred) as deferred, sum(refused) as refused,
         sum(within_5s) as within_5s, sum(within_1m) as within_1m, sum(within_10m) as within_10m, sum(within_1h) as within_1h
       from receiver_tallies where user_key = ? and hour >= ? ${only === undefined ? '' : 'and receiver = ?'}
       group by receiver order by sum(delivered) + sum(refused) + sum(deferred) desc, receiver limit ?`,
      [userKey, Math.floor(since / HOUR), ...(only === undefined ? [] : [only]), most],
    ),
  )
}

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

/** The outcomes of some receivers by hour. */
export function outcomesOf(
  reader: Reader,
  { receivers, since, userKey }: { userKey: number; since: number; receivers: readonly string[] },
): Map<string, HourOfOutcomes[]> {
  const rows = reader.all(
    raw<HourOfOutcomes & { receiver: string }>(
      `select receiver, hour, delivered, deferred, refused from receiver_tallies
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

const SUMMED = TALLIES.of

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
}
