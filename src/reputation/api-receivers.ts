// What became of an account's mail by receiver, with a verdict, and what waits for each (D76, D150, DV76).
import { z } from 'zod'
import { HOUR } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, words } from '../jsonapi/fields.ts'
import { pathParameter } from '../jsonapi/request.ts'
import { field, type Call } from '../jsonapi/resource.ts'
import { RECEIVER_ALARM_KINDS } from '../states/receiver-alarm.ts'
import { providerNamed } from '../smtp/shaping.ts'
import { reasonOf } from '../smtp/reply-reason.ts'
import { periodFilter, periodOf, point, rate, series, share, type PeriodName } from './api-statistics.ts'
import { openAlarms } from './alarms.ts'
import {
  commonRefusals,
  medianSeconds,
  NO_FIGURES,
  outcomesOf,
  receiversOf,
  sumOf,
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
/** Fewer outcomes than this say nothing of a receiver. */
const FEW_OUTCOMES = 10
/** The share of mail from which on a receiver is said to refuse, and the share of attempts from which on to be slow. */
const REFUSING = 0.1
const SLOW = 0.25

const TIMES = ['5s', '1m', '10m', '1h', 'longer'] as const
type DeliveryTime = (typeof TIMES)[number]

/** The ranges as the resource names them: finer ones belong to the next of these. */
const ENDS = { within_5s: '5s', within_1m: '1m', within_10m: '10m', within_1h: '1h' } as const

/** The time within which a share of the delivered mail arrived. */
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

/** The shares of a receiver, and what they say of it. */
export function judged(figures: ReceiverSums): {
  deferred_share: number
  refused_share: number
  verdict: ReceiverVerdict
} {
  const { deferred, delivered, refused } = figures
  const attempts = delivered + deferred + refused
  const shares = {
    deferred_share: share(deferred, attempts),
    refused_share: share(refused, delivered + refused),
  }
  const isSlow = shares.deferred_share >= SLOW || within(figures, 0.95) === 'longer'
  const verdict =
    attempts < FEW_OUTCOMES ? 'quiet' : shares.refused_share >= REFUSING ? 'refusing' : isSlow ? 'slow' : 'good'
  return { ...shares, verdict }
}

interface AskedFigures {
  userKey: number
  period: PeriodName
  since: number
  refusals: number
}

/** A receiver as an action gives it; `figuresOf` adds its figures to the rows of the requested page. */
const rowOf = (receiver: string, waits: WaitingReceiver | undefined, shown: AskedFigures, key: number) => ({
  key,
  id: receiver,
  name: receiver,
  provider: providerNamed(receiver) !== undefined,
  waiting: waits?.waiting ?? 0,
  domains: waits?.domains.slice(0, MAX_RECEIVERS) ?? [],
  shown,
})

/** Receivers with outcomes, those with most mail first, then those for which mail only waits. */
function allReceivers(call: Call<ApiDeps> & { filters: ReadonlyMap<string, string[]> }) {
  const { caller, parts } = call
  const shown = { userKey: caller.userKey, ...periodOf(call), refusals: REFUSALS.list }
  const waiting = waitingReceivers(parts.store, caller.userKey)
  const all = new Set([...receiversOf(parts.store, shown, MAX_RECEIVERS), ...waiting.keys()])
  return [...all].slice(0, MAX_RECEIVERS).map((each, at) => rowOf(each, waiting.get(each), shown, at))
}

/** One receiver. Throws 404 when the account had no mail for it in the period and none waits. */
function oneReceiver(call: Call<ApiDeps> & { filters: ReadonlyMap<string, string[]> }) {
  const { caller, parts } = call
  const receiver = pathParameter(call, 'receiver')
  const shown = { userKey: caller.userKey, ...periodOf(call), refusals: REFUSALS.one }
  const waits = waitingReceivers(parts.store, caller.userKey).get(receiver)
  if (!waits && outcomesOf(parts.store, { ...shown, receivers: [receiver] }).size === 0)
    throw refuse('not_found', 'No mail went to this receiver in the period, and none waits for it.')
  const row = rowOf(receiver, waits, shown, 0)
  const late = lateDomains(parts.store, { ...shown, receiver, since: call.now - HOUR })
  return [{ ...row, domains: [...new Set([...row.domains, ...late])] }]
}

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
    slowest: within(sums, 0.95),
  }
}

const receiverPoint = point.extend({ complained: z.int(), median_seconds: z.int().nullable() })

/** The figures of a receiver by hour or day. */
function pointsOf(
  hours: readonly HourOfReceiver[],
  asked: Parameters<typeof series>[2],
): z.output<typeof receiverPoint>[] {
  return series(hours, NO_FIGURES, asked).map((sums) => {
    const { at, complained, deferred, delivered, refused } = sums
    const median = medianSeconds(sums)
    return { at, delivered, deferred, refused, complained, median_seconds: median === null ? null : Math.round(median) }
  })
}

const refusal = z.object({ words: z.string(), times: z.int(), reason: z.string().nullable() })
const time = (about: string) => field(z.enum(TIMES).nullable(), { about })

export const receivers = define('receivers', {
  table: 'receiver_tallies',
  about: `What became of mail by receiver: a mailbox provider, else the registrable domain of the exchanger, else of the recipient. ${EXTENSION}`,
  attributes: {
    name: words('The provider or the domain.'),
    provider: field(z.boolean(), { about: 'Whether it is a provider that the server knows by its exchangers.' }),
    verdict: field(z.enum(VERDICTS), {
      about: `quiet: fewer than ${FEW_OUTCOMES} outcomes, which say nothing; refusing: it refused ${REFUSING * 100} % of the mail or more; slow: it deferred ${SLOW * 100} % of the attempts or more, or one mail in twenty took longer than an hour; else good.`,
    }),
    volume: count('Recipients whose mail was delivered or refused.'),
    delivered: count('Taken by the exchanger.'),
    deferred: count('Attempts that were put off.'),
    refused: count('Refused for good, or given up.'),
    deferred_share: rate('Deferred attempts as a share of all attempts, 0 to 1.'),
    refused_share: rate('Refused mail as a share of what was delivered or refused, 0 to 1.'),
    complained: count('Complaints about mail that it took.'),
    unmatched_complaints: count('Proven complaints from it that name no recipient of yours.'),
    alarm: field(z.enum(RECEIVER_ALARM_KINDS).nullable(), {
      about: 'The gravest alarm that is open for it (receiver-alarms); null: none.',
    }),
    waiting: count('Recipients whose mail waits now, among the 10,000 newest waiting mails of the account.'),
    domains: field(z.array(z.string()), {
      about:
        'The receiving domains for which mail waits now; of one receiver, also those of the newest 1,000 mails of an hour.',
    }),
    median: time('Half of what was delivered took no longer than this.'),
    slowest: time('95 % of what was delivered took no longer than this.'),
    refusals: field(z.array(refusal), {
      about: `The commonest refusals and deferrals, in the receiver’s words: ${REFUSALS.list} in a list, ${REFUSALS.one} of one receiver; reason: what they mean and what to do, null when that is not known.`,
    }),
    series: field(z.array(receiverPoint), {
      about:
        'By hour for 24h, else by day (UTC), oldest first. median_seconds: half of what was delivered took no longer, estimated within the ranges that end at 5 s, 15 s, 1, 3, 10 and 30 min, 1 and 3 h; null without deliveries.',
    }),
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
      const said = commonRefusals(reader, { ...shown, receiver: row.id, until }, shown.refusals)
      row['refusals'] = said.map((each) => ({ ...each, reason: reasonOf({ text: each.words }, row.id)?.words ?? null }))
      row['series'] = pointsOf(hours, { ...shown, now: until })
    }
  },
  actions: [
    {
      kind: 'view',
      path: '/statistics/receivers',
      id: 'listReceivers',
      scope: 'emails:read',
      about: `The receivers of a period, those with most mail first. ${EXTENSION}`,
      run: allReceivers,
    },
    {
      kind: 'view',
      one: true,
      path: '/statistics/receivers/:receiver',
      id: 'getReceiver',
      scope: 'emails:read',
      about: `One receiver of a period, by its name. ${EXTENSION}`,
      run: oneReceiver,
    },
  ],
})
