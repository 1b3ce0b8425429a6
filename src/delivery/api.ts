// The queue by receiving domain, for operators (D81): waiting mail, the reason why it waits, and actions on it.
// What was learned of a domain is shown as long as it is remembered, also when no mail waits (D64).
import { toAscii } from '../message/address.ts'
import { refuse } from '../base/errors.ts'
import { z } from 'zod'
import { field, type Call, type Written } from '../jsonapi/resource.ts'
import { LANE_ACTIONS, type LaneAction } from './queue/operator.ts'
import { holdingCampaigns, lastResponse } from './queue/waiting.ts'
import { LANE_REASONS, reasonOfLane, shownLane, shownLanes, type ShownLane } from './shown-lanes.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, timeOrNull, words, wordsOrNull } from '../jsonapi/fields.ts'
import { pathParameter } from '../jsonapi/request.ts'

const rowOf = ({ next, ...lane }: ShownLane, index: number) => ({
  key: index,
  id: lane.domain,
  ...lane,
  next_attempt_at: next,
})

/** Whether the domain of a lane, or the last answer about its mail, holds the words; empty words fit all. */
const fits = ({ store }: ApiDeps, { domain }: ShownLane, words: string): boolean =>
  words === '' ||
  [domain, lastResponse(store, domain) ?? ''].some((text) => text.toLowerCase().includes(words.toLowerCase()))

/** Performs an action on one lane and returns its state afterwards. */
async function act(call: Call<ApiDeps>, on: LaneAction): Promise<Written> {
  const domain = toAscii(pathParameter(call, 'lane'))
  if (domain === undefined) throw refuse('not_found', 'A lane is named by its receiving domain.')
  const { bells, clock, store } = call.parts
  await LANE_ACTIONS[on](call.parts, domain)
  bells.queue()
  return { row: rowOf(shownLane(store, clock.now(), domain), 0) }
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
    reason: field(z.enum(LANE_REASONS).nullable(), {
      about:
        'Why nothing is tried, or not all: hold, pause (no connection worked), warm-up (today the receiver gets no more); null: nothing stops it.',
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
    learned_at: timeOrNull('When the last of these limits was learned; they are forgotten an hour later.'),
  },
  filters: {
    search: { column: 'domain', about: `Only those whose domain or last reply holds this. ${EXTENSION}` },
    domain: { column: 'domain', about: `Only these domains. ${EXTENSION}` },
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
      scope: 'emails:read',
      operator: true,
      params: ['filter', 'page'],
      about: `List the receiving domains with mail that waits, on hold, or with limits learned in the last hour. ${EXTENSION}`,
      run({ filters, parts }) {
        const words = filters.get('search')?.join(',') ?? ''
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
      about: `Hold a receiving domain: nothing is tried until it is released, over restarts too. ${EXTENSION}`,
      run: (call: Call<ApiDeps>) => act(call, 'hold'),
    },
    {
      ...common,
      path: '/lanes/:lane/release',
      id: 'releaseLane',
      about: `Release a receiving domain, and mail for it that was held by itself. ${EXTENSION}`,
      run: (call: Call<ApiDeps>) => act(call, 'release'),
    },
    {
      ...common,
      path: '/lanes/:lane/retry',
      id: 'retryLane',
      about: `Try the mail for a receiving domain now. ${EXTENSION}`,
      run: (call: Call<ApiDeps>) => act(call, 'retry'),
    },
    {
      ...common,
      path: '/lanes/:lane/drop',
      id: 'dropLane',
      about: `Give up the mail that waits for a receiving domain: its recipients fail. ${EXTENSION}`,
      run: (call: Call<ApiDeps>) => act(call, 'drop'),
    },
  ],
})
