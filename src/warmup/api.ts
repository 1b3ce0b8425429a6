// The warm-up of each pair of sending IP address and receiver, for operators: today's limit, its use, and the settings.
import { z } from 'zod'
import { must, refuse } from '../base/errors.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, MOST_SEARCHED, time, timeOrNull, words, wordsOrNull } from '../jsonapi/fields.ts'
import { field, type Call, type Written } from '../jsonapi/resource.ts'
import { WARMUP_STATES } from '../store/states/warmup.ts'
import { db } from '../store/query.ts'
import { setPair, type Setting } from './settings.ts'
import { historyOfPair, shownWarmups } from './shown.ts'

/** The largest limit that an operator can set. */
const MOST = 1_000_000_000

/** Sets a pair and answers with it. */
async function set(
  { caller, now, parts, row }: Pick<Call<ApiDeps>, 'caller' | 'parts' | 'now'> & { row: { key: number } },
  setting: Setting,
): Promise<Written> {
  const { bells, clock, store } = parts
  await store.write((tx) => {
    const found = tx.first(db.selectFrom('warmups').selectAll().where('key', '=', row.key))
    if (!found) throw refuse('not_found', 'No such warm-up exists. Check the id in the URL.')
    const by = caller.person?.email ?? `token ${caller.tokenId}`
    return setPair({ ...parts, tx, now, noticed: bells.notices }, found, setting, by)
  })
  bells.queue()
  const [shown] = shownWarmups(parts, clock.now(), { key: [row.key] })
  return { row: { ...must(shown, 'Pair') } }
}

const history = z.array(
  z.object({
    day: z.string(),
    daily_limit: z.int().nullable(),
    used: z.int(),
    deferred: z.int(),
    refused: z.int(),
    complained: z.int(),
    bounced: z.int(),
    verdict: z.enum(['good', 'bad', 'neutral']).nullable(),
  }),
)
const written = { operator: true, scope: 'emails:write' } as const

export const warmups = define('warmups', {
  table: 'warmups',
  about: 'Daily limits for the warm-up of a sending IP address at a receiver. Operators only.',
  extension: true,
  find: (id, parts: ApiDeps) => {
    const [shown] = shownWarmups(parts, parts.clock.now(), { id: [id] })
    return shown && { ...shown }
  },
  attributes: {
    source: words('Sending IP address.'),
    receiver: words('Receiver: a mailbox provider or a domain. `*` means all receivers together.'),
    state: field(z.enum(WARMUP_STATES), { about: 'State of the warm-up.' }),
    step: field(z.int().nullable(), { about: 'Step in the warm-up schedule, from 1. Null if no schedule applies.' }),
    daily_limit: field(z.int('must be a whole number').min(0).max(MOST).nullable(), {
      update: true,
      about:
        'Number of recipients per day. Null if there is no daily limit. A number that you set stays until you set null, which returns to the warm-up schedule.',
    }),
    used: count('Number of recipients attempted today (UTC).'),
    remaining: field(z.int().nullable(), {
      about: 'Remaining number of recipients today. Null if there is no daily limit.',
    }),
    waiting: count('Number of queued recipients at this receiver, over all sending IP addresses.'),
    reason: wordsOrNull('Reason for the state, with rates and the SMTP reply of the receiver. Null if absent.'),
    since: time('Time since which the state applies.'),
    next_at: timeOrNull('Time when sending resumes. Null if it is not stopped.'),
    history: field(history, { about: 'Last 35 days with emails, oldest first.' }),
  },
  filters: {
    source: { column: 'source', about: 'Filter by sending IP address. Commas mean "or".' },
    receiver: { column: 'receiver', about: 'Filter by receiver. Commas mean "or".' },
    search: {
      column: 'receiver',
      whole: MOST_SEARCHED,
      about: 'Filter by text in the receiver or the sending IP address.',
    },
    state: { column: 'status', about: 'Filter by state. Commas mean "or".' },
  },
  // Read only for the pairs of the answer.
  extend(rows, { parts, reader }) {
    const now = (parts as ApiDeps).clock.now()
    for (const row of rows)
      row['history'] = historyOfPair(reader, row.key, now, (row['daily_limit'] as number | null | undefined) ?? null)
  },
  actions: [
    {
      kind: 'view',
      path: '/warmups',
      id: 'listWarmups',
      scope: 'emails:read',
      operator: true,
      params: ['filter', 'page'],
      about: 'List warm-ups, by sending IP address.',
      run({ filters, now, parts }) {
        const search = filters.get('search')?.[0]?.toLowerCase() ?? ''
        const among = (name: string, value: string): boolean =>
          filters.get(name)?.some((each) => each.toLowerCase() === value.toLowerCase()) ?? true
        return shownWarmups(parts, now)
          .filter(
            ({ receiver, source, state }) =>
              among('source', source) &&
              among('receiver', receiver) &&
              among('state', state) &&
              `${receiver} ${source}`.toLowerCase().includes(search),
          )
          .map((shown) => ({ ...shown }))
      },
    },
    {
      kind: 'show',
      path: '/warmups/:warmup',
      id: 'getWarmup',
      scope: 'emails:read',
      operator: true,
      params: [],
      about: 'Get a warm-up.',
    },
    {
      kind: 'update',
      path: '/warmups/:warmup',
      id: 'updateWarmup',
      ...written,
      about: 'Update the daily limit of a warm-up. Null returns to the warm-up schedule.',
      async run(call) {
        const { daily_limit } = call.attributes
        if (daily_limit === undefined) return { row: call.row }
        return set(call, daily_limit === null ? 'release' : { fix: daily_limit })
      },
    },
    {
      kind: 'act',
      path: '/warmups/:warmup/skip',
      id: 'skipWarmup',
      ...written,
      about: 'Skip a warm-up. There is no daily limit from now on.',
      run: (call: Call<ApiDeps>) => set(call, 'skip'),
    },
    {
      kind: 'act',
      path: '/warmups/:warmup/restart',
      id: 'restartWarmup',
      ...written,
      about: 'Restart a warm-up at the first step.',
      run: (call: Call<ApiDeps>) => set(call, 'restart'),
    },
  ],
})
