// The results of an account's email by receiver, with a verdict, and the queued email of each receiver (D76, D150).
import { z } from 'zod'
import { HOUR } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, words } from '../jsonapi/fields.ts'
import { pathParameter } from '../jsonapi/request.ts'
import { field, type Call } from '../jsonapi/resource.ts'
import { RECEIVER_ALARM_KINDS } from '../store/states/receiver-alarm.ts'
import { providerNamed } from '../smtp/shaping.ts'
import { reasonOf } from '../smtp/reply-reason.ts'
import {
  periodFilter,
  periodOf,
  point,
  rate,
  series,
  share,
  UTC_DAYS_BEFORE,
  type StatisticsPeriod,
} from './api-statistics.ts'
import { openAlarms } from './alarms.ts'
import {
  commonRefusals,
  NO_FIGURES,
  outcomesOf,
  receiversOf,
  secondsWithin,
  sumOf,
  utcDaysBefore,
  WITHIN,
  type HourOfReceiver,
  type ReceiverSums,
} from './receivers.ts'
import { lateDomains, waitingReceivers, type WaitingReceiver } from './waiting-receivers.ts'

const MAX_RECEIVERS = 500
/** Texts of refusals in a list of receivers, and of one receiver. */
const REFUSALS = { list: 3, one: 20 }

const VERDICTS = ['good', 'slow', 'refusing', 'quiet'] as const
type ReceiverVerdict = (typeof VERDICTS)[number]
/** With fewer outcomes, the verdict is `quiet`. */
const FEW_OUTCOMES = 10
/** The rejection rate from which a receiver is `refusing`, and the deferral rate from which it is `slow`. */
const REFUSING = 0.1
const SLOW = 0.25

const TIMES = ['5s', '1m', '10m', '1h', 'longer'] as const
type DeliveryTime = (typeof TIMES)[number]

/** The ranges as the resource names them: finer ones belong to the next of these. */
const ENDS = { within_5s: '5s', within_1m: '1m', within_10m: '10m', within_1h: '1h' } as const

/** The time within which this part of the delivered email arrived. */
function within(figures: ReceiverSums, part: number): DeliveryTime | null {
  const { delivered } = figures
  if (delivered === 0) return null
  let sum = 0
  for (const [column] of WITHIN) {
    sum += figures[column]
    if (column in ENDS && sum >= delivered * part) return ENDS[column as keyof typeof ENDS]
  }
  return 'longer'
}

/** The rates of a receiver, and its verdict. */
export function judged(figures: ReceiverSums): {
  deferred_rate: number
  refused_rate: number
  verdict: ReceiverVerdict
} {
  const { deferred, delivered, refused } = figures
  const attempts = delivered + deferred + refused
  const shares = {
    deferred_rate: share(deferred, attempts),
    refused_rate: share(refused, delivered + refused),
  }
  const isSlow = shares.deferred_rate >= SLOW || within(figures, 0.95) === 'longer'
  const verdict =
    attempts < FEW_OUTCOMES ? 'quiet' : shares.refused_rate >= REFUSING ? 'refusing' : isSlow ? 'slow' : 'good'
  return { ...shares, verdict }
}

interface AskedFigures extends Pick<StatisticsPeriod, 'since' | 'spans' | 'zone'> {
  userKey: number
  refusals: number
}

/** A receiver as an action returns it. `figuresOf` adds its figures to the rows of the requested page. */
const rowOf = (receiver: string, waits: WaitingReceiver | undefined, shown: AskedFigures, key: number) => ({
  key,
  id: receiver,
  name: receiver,
  provider: providerNamed(receiver) !== undefined,
  waiting: waits?.waiting ?? 0,
  domains: waits?.domains.slice(0, MAX_RECEIVERS) ?? [],
  shown,
})

/** Receivers with outcomes, most email first, then those with only queued email. */
function allReceivers(call: Call<ApiDeps> & { filters: ReadonlyMap<string, string[]> }) {
  const { caller, parts } = call
  const shown = { userKey: caller.userKey, ...periodOf(call), refusals: REFUSALS.list }
  const waiting = waitingReceivers(parts.store, caller.userKey)
  const all = new Set([...receiversOf(parts.store, shown, MAX_RECEIVERS), ...waiting.keys()])
  return [...all].slice(0, MAX_RECEIVERS).map((each, at) => rowOf(each, waiting.get(each), shown, at))
}

/** One receiver. Throws 404 if the account had no email for it in the period and no email is queued for it. */
function oneReceiver(call: Call<ApiDeps> & { filters: ReadonlyMap<string, string[]> }) {
  const { caller, parts } = call
  const receiver = pathParameter(call, 'receiver')
  const shown = { userKey: caller.userKey, ...periodOf(call), refusals: REFUSALS.one }
  const waits = waitingReceivers(parts.store, caller.userKey).get(receiver)
  if (!waits && outcomesOf(parts.store, { ...shown, receivers: [receiver] }).size === 0)
    throw refuse(
      'not_found',
      'This receiver has no emails in the period and none in the queue. Use another period or another receiver.',
    )
  const row = rowOf(receiver, waits, shown, 0)
  const late = lateDomains(parts.store, { ...shown, receiver, since: call.now - HOUR })
  return [{ ...row, domains: [...new Set([...row.domains, ...late])] }]
}

const rounded = (seconds: number | null): number | null => (seconds === null ? null : Math.round(seconds))

function figuresOf(hours: readonly HourOfReceiver[]) {
  const sums = sumOf(hours)
  const { complained, deferred, delivered, refused, unmatched_complaints } = sums
  return {
    volume: delivered + refused,
    delivered,
    deferred,
    refused,
    complained,
    unmatched_complaints,
    ...judged(sums),
    median: within(sums, 0.5),
    p95: within(sums, 0.95),
    median_seconds: rounded(secondsWithin(sums, 0.5)),
    p95_seconds: rounded(secondsWithin(sums, 0.95)),
  }
}

const receiverPoint = point.extend({ complained: z.int(), median_seconds: z.int().nullable() })

/** The figures of a receiver by hour or day. */
function pointsOf(
  hours: readonly HourOfReceiver[],
  spans: StatisticsPeriod['spans'],
): z.output<typeof receiverPoint>[] {
  return series(hours, NO_FIGURES, spans).map((sums) => {
    const { at, complained, deferred, delivered, refused } = sums
    return { at, delivered, deferred, refused, complained, median_seconds: rounded(secondsWithin(sums, 0.5)) }
  })
}

const refusal = z.object({ words: z.string(), times: z.int(), reason: z.string().nullable() })
const time = (about: string) => field(z.enum(TIMES).nullable(), { about })
const estimate = (about: string) =>
  field(z.int().nullable(), {
    about: `${about} It is estimated from ranges up to 5 s, 15 s, 1, 3, 10 and 30 min, 1 and 3 h. Longer times count as 3 h. Null without deliveries.`,
  })

export const receivers = define('receivers', {
  table: 'receiver_tallies',
  scope: 'emails',
  about:
    'Delivery statistics by receiver: a mailbox provider, otherwise the registrable domain of the receiving server, otherwise that of the recipient.',
  extension: true,
  attributes: {
    name: words('Provider or the domain.'),
    provider: field(z.boolean(), {
      about: 'Whether the receiver is a mailbox provider that Postrider recognises by its receiving servers.',
    }),
    verdict: field(z.enum(VERDICTS), {
      about: `Rating. \`quiet\`: fewer than ${FEW_OUTCOMES} results, too few to rate. \`refusing\`: at least ${REFUSING * 100} % of the emails were rejected. \`slow\`: at least ${SLOW * 100} % of the attempts were deferred, or 5 % of the emails took longer than an hour. \`good\`: any other.`,
    }),
    volume: count('Number of recipients with a result: delivered or rejected.'),
    delivered: count('Number of recipients that the receiving server accepted.'),
    deferred: count('Number of deferred attempts.'),
    refused: count('Number of recipients that were permanently rejected or given up.'),
    deferred_rate: rate('Deferred attempts as a share of all attempts, from 0 to 1.'),
    refused_rate: rate('Rejected recipients as a share of those with a result, from 0 to 1.'),
    complained: count('Number of complaints about delivered emails.'),
    unmatched_complaints: count('Number of proven complaints that do not name a recipient of yours.'),
    alarm: field(z.enum(RECEIVER_ALARM_KINDS).nullable(), {
      about: 'Most serious open alarm for the receiver (see `receiver-alarms`). Null if absent.',
    }),
    waiting: count('Number of queued recipients, among the 10,000 newest queued emails of the account.'),
    domains: field(z.array(z.string()), {
      about:
        'Recipient domains with queued emails. For a single receiver, also the domains of the newest 1,000 emails of an hour.',
    }),
    median: time('Time within which half of the delivered emails were accepted, in seconds. Null without deliveries.'),
    p95: time('Time within which 95 % of the delivered emails were accepted, in seconds. Null without deliveries.'),
    median_seconds: estimate('Estimated time in seconds within which half of the delivered emails were accepted.'),
    p95_seconds: estimate('Estimated time in seconds within which 95 % of the delivered emails were accepted.'),
    refusals: field(z.array(refusal), {
      about: `Most frequent rejections and deferrals, with the text of the reply: ${REFUSALS.list} per receiver in a list, ${REFUSALS.one} for a single receiver. \`reason\`: the meaning and what to do about it, null if unknown.`,
    }),
    series: field(z.array(receiverPoint), {
      about:
        'Statistics per hour for 24h, otherwise per day of the time zone, oldest first. `median_seconds`: the estimated time within which half of the emails were delivered. Null without deliveries.',
    }),
    utc_days_before: UTC_DAYS_BEFORE,
  },
  filters: periodFilter,
  // Read only for the receivers on the requested page.
  extend(rows, { parts, reader }) {
    const all = rows as unknown as (ReturnType<typeof rowOf> & Record<string, unknown>)[]
    const [first] = all
    if (!first) return
    const until = parts.clock.now()
    const { shown } = first
    const outcomes = outcomesOf(reader, { ...shown, receivers: all.map(({ id }) => id) })
    const alarms = openAlarms(reader, shown.userKey)
    for (const row of all) {
      const hours = outcomes.get(row.id) ?? []
      Object.assign(row, figuresOf(hours))
      row['alarm'] = alarms.get(row.id) ?? null
      const common = commonRefusals(reader, { ...shown, receiver: row.id, until }, shown.refusals)
      row['refusals'] = common.map((each) => ({
        ...each,
        reason: reasonOf({ text: each.words }, row.id)?.words ?? null,
      }))
      row['series'] = pointsOf(hours, shown.spans)
      row['utc_days_before'] = utcDaysBefore(reader, shown.userKey, shown.zone, shown.since)
    }
  },
  actions: [
    {
      kind: 'view',
      path: '/statistics/receivers',
      id: 'listReceivers',
      about: 'List receivers with statistics for a period, most emails first.',
      run: allReceivers,
    },
    {
      kind: 'view',
      one: true,
      path: '/statistics/receivers/:receiver',
      id: 'getReceiver',
      about: 'Get the statistics of a receiver for a period.',
      run: oneReceiver,
    },
  ],
})
