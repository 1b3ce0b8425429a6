// What became of an account's mail by receiver, with a verdict, and what waits for each (D76, D150).
import { z } from 'zod'
import { HOUR } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, words } from '../jsonapi/fields.ts'
import { pathParameter } from '../jsonapi/request.ts'
import { field, type Call } from '../jsonapi/resource.ts'
import { providerNamed } from '../smtp/shaping.ts'
import { reasonOf } from '../smtp/reply-reason.ts'
import { periodFilter, periodOf, point, rate, series, share, type PeriodName } from './api-statistics.ts'
import { commonRefusals, outcomesOf, receiverFigures, type ReceiverFigures } from './receivers.ts'
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

/** The time within which a share of the delivered mail arrived. */
function within({ delivered, ...figures }: ReceiverFigures, part: number): DeliveryTime | null {
  let sum = 0
  for (const name of ['5s', '1m', '10m', '1h'] as const) {
    sum += figures[`within_${name}`]
    if (delivered > 0 && sum >= delivered * part) return name
  }
  return delivered > 0 ? 'longer' : null
}

/** The shares of a receiver, and what they say of it. */
export function judged(figures: ReceiverFigures): {
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

const NOTHING = { delivered: 0, deferred: 0, refused: 0, within_5s: 0, within_1m: 0, within_10m: 0, within_1h: 0 }

interface AskedFigures {
  userKey: number
  period: PeriodName
  since: number
  refusals: number
}

const rowOf = (figures: ReceiverFigures, waits: WaitingReceiver | undefined, shown: AskedFigures, key: number) => ({
  key,
  id: figures.receiver,
  name: figures.receiver,
  provider: providerNamed(figures.receiver) !== undefined,
  volume: figures.delivered + figures.refused,
  delivered: figures.delivered,
  deferred: figures.deferred,
  refused: figures.refused,
  ...judged(figures),
  waiting: waits?.waiting ?? 0,
  domains: waits?.domains.slice(0, MAX_RECEIVERS) ?? [],
  median: within(figures, 0.5),
  slowest: within(figures, 0.95),
  shown,
})

/** Receivers with outcomes, those with most mail first, then those for which mail only waits. */
function allReceivers(call: Call<ApiDeps> & { filters: ReadonlyMap<string, string[]> }) {
  const { caller, parts } = call
  const shown = { userKey: caller.userKey, ...periodOf(call), refusals: REFUSALS.list }
  const waiting = waitingReceivers(parts.store, caller.userKey)
  const figures = receiverFigures(parts.store, shown, MAX_RECEIVERS)
  const known = new Set(figures.map(({ receiver }) => receiver))
  const others = [...waiting.keys()].filter((receiver) => !known.has(receiver))
  return [...figures, ...others.map((receiver) => ({ receiver, ...NOTHING }))]
    .slice(0, MAX_RECEIVERS)
    .map((each, at) => rowOf(each, waiting.get(each.receiver), shown, at))
}

/** One receiver. Throws 404 when the account had no mail for it in the period and none waits. */
function oneReceiver(call: Call<ApiDeps> & { filters: ReadonlyMap<string, string[]> }) {
  const { caller, parts } = call
  const receiver = pathParameter(call, 'receiver')
  const shown = { userKey: caller.userKey, ...periodOf(call), refusals: REFUSALS.one }
  const waits = waitingReceivers(parts.store, caller.userKey).get(receiver)
  const [figures] = receiverFigures(parts.store, { ...shown, only: receiver }, 1)
  if (!figures && !waits)
    throw refuse('not_found', 'No mail went to this receiver in the period, and none waits for it.')
  const row = rowOf(figures ?? { receiver, ...NOTHING }, waits, shown, 0)
  const late = lateDomains(parts.store, { ...shown, receiver, since: call.now - HOUR })
  return [{ ...row, domains: [...new Set([...row.domains, ...late])] }]
}

const refusal = z.object({ words: z.string(), times: z.int(), reason: z.string().nullable() })
const time = (about: string) => field(z.enum(TIMES).nullable(), { about })

export const receivers = define('receivers', {
  table: 'receiver_tallies',
  about: `What became of mail by receiver: a mailbox provider, else the receiving domain. ${EXTENSION}`,
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
    series: field(z.array(point), { about: 'By hour for 24h, else by day (UTC), oldest first.' }),
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
    for (const row of all) {
      const said = commonRefusals(reader, { ...shown, receiver: row.id, until }, shown.refusals)
      row['refusals'] = said.map((each) => ({ ...each, reason: reasonOf({ text: each.words }, row.id)?.words ?? null }))
      row['series'] = series(outcomes.get(row.id) ?? [], shown, until)
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
