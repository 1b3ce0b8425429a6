// The warm-up of each pair of source and receiver, for operators (DV1): what a day allows, what was used of it, and
// what an operator sets.
import { z } from 'zod'
import { must, refuse } from '../base/errors.ts'
import { field, type Call, type Written } from '../jsonapi/resource.ts'
import { WARMUP_STATES } from '../states/warmup.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, time, timeOrNull, words, wordsOrNull } from '../jsonapi/fields.ts'
import { db } from '../store/query.ts'
import { setPair, type Setting } from './settings.ts'
import { historyOfPair, shownWarmups } from './shown.ts'

/** The largest number that an operator can set. */
const MOST = 1_000_000_000

/** Who asks: the person, or the token of a program. */
const callerOf = ({ caller }: Pick<Call<ApiDeps>, 'caller'>): string =>
  caller.person?.email ?? `token ${caller.tokenId}`

/** Sets a pair and answers with it as it is then. */
async function set(
  call: Pick<Call<ApiDeps>, 'caller' | 'parts' | 'now'> & { row: { key: number } },
  setting: Setting,
): Promise<Written> {
  const { now, parts, row } = call
  const { bells, clock, store } = parts
  await store.write((tx) => {
    const found = tx.first(db.selectFrom('warmups').selectAll().where('key', '=', row.key))
    if (!found) throw refuse('not_found', 'No such resource exists.')
    return setPair({ ...parts, tx, now, noticed: bells.notices }, found, setting, callerOf(call))
  })
  bells.queue()
  const [shown] = shownWarmups(parts, clock.now(), { key: row.key })
  return { row: { ...must(shown, 'The pair') } }
}

const history = z.array(
  z.object({
    day: z.string(),
    allowance: z.int().nullable(),
    used: z.int(),
    deferred: z.int(),
    refused: z.int(),
    complained: z.int(),
    bounced: z.int(),
    verdict: z.enum(['good', 'bad', 'nothing']).nullable(),
  }),
)
const written = { operator: true, scope: 'emails:write' } as const

export const warmups = define('warmups', {
  table: 'warmups',
  about: `What a day allows a source address to send to a receiver, until the receiver knows it; for operators. ${EXTENSION}`,
  find: (id, parts: ApiDeps) => {
    const [shown] = shownWarmups(parts, parts.clock.now(), { id })
    return shown && { ...shown }
  },
  attributes: {
    source: words('The address of this server.'),
    receiver: words('The receiver: a provider or a domain; `*` for all receivers of the source together.'),
    state: field(z.enum(WARMUP_STATES), { about: 'Where the pair stands.' }),
    step: field(z.int().nullable(), { about: 'The step of its ladder, from 1; null: no ladder counts.' }),
    allowance: field(z.int('must be a whole number').min(0).max(MOST).nullable(), {
      update: true,
      about: 'Recipients a day; null: no allowance. A number that is set stays; null lets it go on by itself.',
    }),
    used: count('Recipients that were tried today (UTC).'),
    left: field(z.int().nullable(), { about: 'What is left of the allowance; null: no allowance.' }),
    waiting: count('Recipients whose mail waits for this receiver, over all sources.'),
    relayed: count('Recipients of this receiver that a relay took over today, over all sources.'),
    reason: wordsOrNull('Why it stands there, with the figures and the words of the receiver.'),
    since: time('Since when.'),
    next_at: timeOrNull('When it opens again; null: it is open.'),
    history: field(history, { about: 'The last 35 days with mail, the oldest first.' }),
  },
  filters: {
    source: { column: 'source', about: `Only these sources. ${EXTENSION}` },
    receiver: { column: 'receiver', about: `Only these receivers. ${EXTENSION}` },
    search: { column: 'receiver', about: `Only those whose receiver or source holds this. ${EXTENSION}` },
    state: { column: 'status', about: `Only those in these states. ${EXTENSION}` },
  },
  // Read only for the pairs of the answer.
  extend(rows, { parts, reader }) {
    const now = (parts as ApiDeps).clock.now()
    for (const row of rows)
      row['history'] = historyOfPair(reader, row.key, now, (row['allowance'] as number | null | undefined) ?? null)
  },
  actions: [
    {
      kind: 'view',
      path: '/warmups',
      id: 'listWarmups',
      scope: 'emails:read',
      operator: true,
      params: ['filter', 'page'],
      about: `List the pairs of source and receiver, by source. ${EXTENSION}`,
      run({ filters, now, parts }) {
        const of = (name: string): string[] | undefined => filters.get(name)
        const wanted = { source: of('source'), receiver: of('receiver'), state: of('state') }
        const words = of('search')?.join(',').toLowerCase() ?? ''
        return shownWarmups(parts, now, wanted)
          .filter(({ receiver, source }) => `${receiver} ${source}`.toLowerCase().includes(words))
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
      about: `One pair. ${EXTENSION}`,
    },
    {
      kind: 'update',
      path: '/warmups/:warmup',
      id: 'updateWarmup',
      ...written,
      about: `Set a number of recipients a day, or let it go on by itself (null). ${EXTENSION}`,
      async run(call) {
        const { allowance } = call.attributes
        if (allowance === undefined) return { row: call.row }
        return set(call, allowance === null ? 'release' : { fix: allowance })
      },
    },
    {
      kind: 'act',
      path: '/warmups/:warmup/skip',
      id: 'skipWarmup',
      ...written,
      about: `Let the pair send without an allowance. ${EXTENSION}`,
      run: (call: Call<ApiDeps>) => set(call, 'skip'),
    },
    {
      kind: 'act',
      path: '/warmups/:warmup/restart',
      id: 'restartWarmup',
      ...written,
      about: `Begin again at the first step. ${EXTENSION}`,
      run: (call: Call<ApiDeps>) => set(call, 'restart'),
    },
  ],
})
