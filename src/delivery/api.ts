// The queue by recipient domain, for operators (D81): queued mail, the reason why it waits, and actions on it. Learned
// limits of a domain are shown until they expire, even if no mail is queued (D64).
import { toAscii } from '../message/address.ts'
import { refuse } from '../base/errors.ts'
import { z } from 'zod'
import { field, type Call, type Written } from '../jsonapi/resource.ts'
import { LANE_ACTIONS, type LaneAction } from './queue/operator.ts'
import {
  holdingCampaigns,
  lastResponse,
  heldLanes,
  isWarmingUp,
  waitingLanes,
  type WaitingLane,
} from './queue/waiting.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, MOST_SEARCHED, timeOrNull, wordsOrNull } from '../jsonapi/fields.ts'
import { pathParameter } from '../jsonapi/request.ts'
import { domainOf } from '../message/lane-names.ts'
import type { Reader } from '../store/database.ts'
import { learnedLanes, learnedOf, type LearnedOf } from './pacing/lane-memory.ts'

const rowOf = ({ next, ...lane }: ShownLane, index: number) => ({
  key: index,
  id: lane.domain,
  ...lane,
  moved: null as number | null,
  next_attempt_at: lane.hold ? null : next,
})

/**
 * Whether the domain of a lane, or the last answer about its mail, contains the search text. An empty text matches all.
 */
const fits = ({ store }: ApiDeps, { domain }: ShownLane, words: string): boolean =>
  words === '' ||
  [domain, lastResponse(store, domain) ?? ''].some((text) => text.toLowerCase().includes(words.toLowerCase()))

async function act(call: Call<ApiDeps>, on: LaneAction): Promise<Written> {
  const domain = toAscii(pathParameter(call, 'lane'))
  if (domain === undefined)
    throw refuse(
      'not_found',
      'A lane is named by its recipient domain. Use a domain name such as "example.net" in the URL.',
    )
  const { bells, clock, store } = call.parts
  const moved = await LANE_ACTIONS[on](call.parts, domain)
  bells.queue()
  return { row: { ...rowOf(shownLane(store, clock.now(), domain), 0), moved } }
}

const common = { kind: 'act', free: true, operator: true, scope: 'emails:write' } as const

const LANE_REASONS = ['hold', 'pause', 'warm-up'] as const

export const lanes = define('lanes', {
  table: 'lane_holds',
  scope: 'emails',
  about: 'Recipient domains of the queue, with the limits of their receiving servers. Operators only.',
  extension: true,
  attributes: {
    domain: field(z.string(), { sort: true, about: 'Recipient domain.' }),
    hold: field(z.boolean(), {
      about: 'Whether an operator holds the lane. Delivery stops, and new emails are queued.',
    }),
    queued: count('Number of queued recipients.'),
    active: field(z.int(), { sort: true, about: 'Number of recipients whose email is being delivered now.' }),
    held: count('Number of recipients that are held with their email or their campaign.'),
    held_by: field(z.array(z.object({ id: z.string(), name: z.string(), account: z.string(), recipients: z.int() })), {
      about: 'Paused campaigns with held recipients in this lane. Resume the campaign to release them.',
    }),
    reason: field(z.enum(LANE_REASONS).nullable(), {
      about:
        'Reason why delivery is stopped or limited. `hold`: held by an operator. `pause`: no connection worked. `warm-up`: the daily limit of the receiver is reached. Null if delivery is not limited.',
    }),
    moved: field(z.int().nullable(), {
      about: 'Number of recipients that the action retried, released or canceled. Null in lists.',
    }),
    next_attempt_at: field(z.iso.datetime().nullable(), {
      kind: 'time',
      sort: true,
      about: 'Time of the next attempt for a queued recipient. Null if no attempt is planned.',
    }),
    response: wordsOrNull('Last SMTP reply for a queued email. Null if absent.'),
    connections: field(z.int().nullable(), {
      about:
        'Number of simultaneous connections that the receiving servers accept, learned in the last hour. Null if no limit was learned.',
    }),
    per_second: field(z.number().nullable(), {
      about:
        'Number of emails per second that the receiving servers accept, learned in the last hour. Null if no limit was learned.',
    }),
    paused_until: timeOrNull('Time until which delivery is paused because no connection worked. Null if it is not.'),
    learned_at: timeOrNull(
      'Time when the last of these limits was learned. Limits expire after an hour. Null if no limit was learned.',
    ),
  },
  filters: {
    search: {
      column: 'domain',
      whole: MOST_SEARCHED,
      about: 'Filter by text in the domain or in the last reply.',
    },
    domain: { column: 'domain', about: 'Filter by recipient domain. Commas mean "or".' },
  },
  // Read only for the lanes on the requested page.
  extend(rows, { reader }) {
    for (const row of rows) {
      row['reason'] = reasonOfLane(reader, row as unknown as ShownLane)
      row['response'] = lastResponse(reader, row['domain'] as string)
      row['held_by'] = row['held'] === 0 ? [] : holdingCampaigns(reader, row['domain'] as string)
    }
  },
  actions: [
    {
      kind: 'view',
      path: '/lanes',
      id: 'listLanes',
      operator: true,
      params: ['filter', 'sort', 'page'],
      about:
        'List recipient domains in the queue. A domain is listed if it has queued emails, a hold, or limits learned in the last hour.',
      run({ filters, parts }) {
        const words = filters.get('search')?.[0] ?? ''
        const domains = filters.get('domain')
        return shownLanes(parts.store, parts.clock.now())
          .filter(({ domain }) => domains?.includes(domain) ?? true)
          .filter((lane) => fits(parts, lane, words))
          .map(rowOf)
      },
    },
    {
      ...common,
      path: '/lanes/:lane/hold',
      id: 'holdLane',
      about: 'Hold delivery to a recipient domain until it is released. The hold survives restarts.',
      run: (call: Call<ApiDeps>) => act(call, 'hold'),
    },
    {
      ...common,
      path: '/lanes/:lane/release',
      id: 'releaseLane',
      about: 'Release a recipient domain, and the emails to it that were held one by one.',
      run: (call: Call<ApiDeps>) => act(call, 'release'),
    },
    {
      ...common,
      path: '/lanes/:lane/retry',
      id: 'retryLane',
      about: 'Retry queued emails to a recipient domain now.',
      run: (call: Call<ApiDeps>) => act(call, 'retry'),
    },
    {
      ...common,
      path: '/lanes/:lane/drop',
      id: 'dropLane',
      about: 'Cancel the delivery of queued emails to a recipient domain. Their recipients fail.',
      run: (call: Call<ApiDeps>) => act(call, 'drop'),
    },
  ],
})

// The recipient domains as the API, the console and the commands show them: queued mail, holds, and the limits learned
// from the receiving servers.

const MAX_LANES = 1000

export interface ShownLane extends WaitingLane, LearnedOf {
  /** Whether the operator holds it. */
  hold: boolean
}

/** The domains with mail that waits, on hold, or with limits learned in the last hour. */
export function shownLanes(reader: Reader, now: number): ShownLane[] {
  const held = heldLanes(reader)
  const learned = learnedLanes(reader, now)
  const also = [...held, ...learned.map(({ lane }) => domainOf(lane))]
  return waitingLanes(reader, also, MAX_LANES).map((lane) => ({
    ...lane,
    hold: held.has(lane.domain),
    ...learnedOf(learned, lane.domain),
  }))
}

/** One domain, even if it has no queued mail and no learned limits. */
export function shownLane(reader: Reader, now: number, domain: string): ShownLane {
  const none = { domain, queued: 0, active: 0, held: 0, next: null, hold: false }
  const found = shownLanes(reader, now).find((lane) => lane.domain === domain)
  return found ?? { ...none, connections: null, per_second: null, paused_until: null, learned_at: null }
}

/** Why mail of a domain is not attempted now, in a word, or null if delivery is not limited. */
export const reasonOfLane = (
  reader: Reader,
  { domain, hold, paused_until, queued }: Pick<ShownLane, 'domain' | 'hold' | 'paused_until' | 'queued'>,
): (typeof LANE_REASONS)[number] | null =>
  hold ? 'hold' : paused_until !== null ? 'pause' : queued > 0 && isWarmingUp(reader, domain) ? 'warm-up' : null
