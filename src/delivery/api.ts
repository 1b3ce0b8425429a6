// The queue by receiving domain, for operators (D81): waiting mail, the reason why it waits, and actions on it.
// What was learned of a domain is shown as long as it is remembered, also when no mail waits (D64).
import { toAscii } from '../message/address.ts'
import { refuse } from '../base/errors.ts'
import { z } from 'zod'
import { field, type Call, type Written } from '../jsonapi/resource.ts'
import { heldLanes, holdLane } from './queue/holds.ts'
import { learnedLanes, learnedOf, type LearnedLane } from './pacing/lane-memory.ts'
import { domainOf } from '../message/lane-names.ts'
import { moveLane, retryLane } from './queue/operator.ts'
import { holdingCampaigns, lastResponse, waitingLanes, type WaitingLane } from './queue/waiting.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, timeOrNull, words, wordsOrNull } from '../jsonapi/fields.ts'
import { pathParameter } from '../jsonapi/request.ts'

const MAX_LANES = 1000

const rowOf = (lane: WaitingLane, index: number, held: ReadonlySet<string>, learned: readonly LearnedLane[]) => ({
  key: index,
  id: lane.domain,
  domain: lane.domain,
  hold: held.has(lane.domain),
  queued: lane.queued,
  active: lane.active,
  held: lane.held,
  next_attempt_at: lane.next,
  ...learnedOf(learned, lane.domain),
})

const list = ({ parts: { clock, store } }: Pick<Call<ApiDeps>, 'parts'>) => {
  const held = heldLanes(store)
  const learned = learnedLanes(store, clock.now())
  const also = [...held, ...learned.map(({ lane }) => domainOf(lane))]
  return waitingLanes(store, also, MAX_LANES).map((lane, index) => rowOf(lane, index, held, learned))
}

/** Performs an action on one lane and returns its state afterwards. */
async function act(call: Call<ApiDeps>, run: (parts: ApiDeps, domain: string) => Promise<unknown>): Promise<Written> {
  const domain = toAscii(pathParameter(call, 'lane'))
  if (domain === undefined) throw refuse('not_found', 'A lane is named by its receiving domain.')
  await run(call.parts, domain)
  call.parts.bells.queue()
  const none = { domain, queued: 0, active: 0, held: 0, next: null }
  const { clock, store } = call.parts
  const row = list(call).find(({ id }) => id === domain)
  return { row: row ?? rowOf(none, 0, heldLanes(store), learnedLanes(store, clock.now())) }
}

const common = { kind: 'act', free: true, operator: true, scope: 'emails:write' } as const

export const lanes = define('lanes', {
  table: 'lane_holds',
  about: `Mail that waits, and what exchangers take, by receiving domain; for operators. ${EXTENSION}`,
  attributes: {
    domain: words('The receiving domain.'),
    hold: field(z.boolean(), { about: 'Whether the operator holds it: no mail is tried, and new mail waits too.' }),
    queued: count('Recipients whose mail waits.'),
    active: count('Recipients whose mail is being delivered now.'),
    held: count('Recipients whose mail is held by itself, or with its campaign.'),
    held_by: field(z.array(z.object({ id: z.string(), name: z.string(), account: z.string(), recipients: z.int() })), {
      about: 'The paused campaigns that hold mail here; it goes on with them.',
    }),
    next_attempt_at: timeOrNull('When the next of them is tried.'),
    response: wordsOrNull('The last reply about the waiting mail.'),
    connections: field(z.int().nullable(), {
      about: 'How many connections at once its exchangers accept, learned in the last hour.',
    }),
    per_second: field(z.number().nullable(), {
      about: 'How many mails per second its exchangers accept, learned in the last hour.',
    }),
    paused_until: timeOrNull('Until when nothing is tried, because no connection worked.'),
  },
  // Read only for the lanes on the requested page.
  extend(rows, { reader }) {
    for (const row of rows) {
      row['response'] = lastResponse(reader, row['domain'] as string)
      row['held_by'] = row['held'] === 0 ? [] : holdingCampaigns(reader, row['domain'] as string)
    }
  },
  actions: [
    {
      kind: 'view',
      path: '/lanes',
      id: 'listLanes',
      scope: 'emails:read',
      operator: true,
      params: ['page'],
      about: `List the receiving domains with mail that waits, on hold, or with limits learned in the last hour. ${EXTENSION}`,
      run: list,
    },
    {
      ...common,
      path: '/lanes/:lane/hold',
      id: 'holdLane',
      about: `Hold a receiving domain: nothing is tried until it is released, over restarts too. ${EXTENSION}`,
      run: (call: Call<ApiDeps>) => act(call, (parts, domain) => holdLane(parts, domain, true)),
    },
    {
      ...common,
      path: '/lanes/:lane/release',
      id: 'releaseLane',
      about: `Release a receiving domain, and mail for it that was held by itself. ${EXTENSION}`,
      run: (call: Call<ApiDeps>) =>
        act(call, async (parts, domain) => {
          await holdLane(parts, domain, false)
          await moveLane(parts, domain, 'release')
        }),
    },
    {
      ...common,
      path: '/lanes/:lane/retry',
      id: 'retryLane',
      about: `Try the mail for a receiving domain now. ${EXTENSION}`,
      run: (call: Call<ApiDeps>) => act(call, retryLane),
    },
    {
      ...common,
      path: '/lanes/:lane/drop',
      id: 'dropLane',
      about: `Give up the mail that waits for a receiving domain: its recipients fail. ${EXTENSION}`,
      run: (call: Call<ApiDeps>) => act(call, (parts, domain) => moveLane(parts, domain, 'drop')),
    },
  ],
})
