// The watch of blocklists and reverse DNS, for operators (D160).
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { define } from '../jsonapi/define.ts'
import { EXTENSION, time, timeOrNull, words, wordsOrNull } from '../jsonapi/fields.ts'
import { pathParameter } from '../jsonapi/request.ts'
import { field } from '../jsonapi/resource.ts'
import { valuesOf } from '../schema/tables.ts'
import { WATCH_STATUSES } from '../states/watch.ts'
import { changesOf, listWatches, watchById, type WatchRow } from './watches.ts'
import { explained } from './words.ts'

/** The values of a filter; all when it is absent. Throws 400 for another value. */
function chosen(filters: ReadonlyMap<string, string[]>, name: string, all: readonly string[]): readonly string[] {
  const values = filters.get(name) ?? all
  const strange = values.find((value) => !all.includes(value))
  if (strange === undefined) return values
  const parameter = `filter[${name}]`
  throw refuse('unsupported_filter', `"${strange}" is not one of ${all.join(', ')}.`, { parameter })
}

const rowOf = (watch: WatchRow) => ({
  ...watch,
  state: watch.status,
  list: watch.list === '' ? null : watch.list,
  ...explained(watch),
})

const STATES =
  'clear: nothing is wrong; listed: the list has an entry; wrong: the reverse entry is; unknown: no answer that can be believed.'
const state = (about: string) => field(z.enum(WATCH_STATUSES), { about })

export const watches = define('watches', {
  table: 'watches',
  called: 'Watch',
  about: `What is known of the addresses and domains of this server on blocklists and in reverse DNS; for operators. ${EXTENSION}`,
  attributes: {
    kind: field(z.enum(valuesOf('watches', 'kind')), {
      about:
        'blocklist: an address on a list; domain_list: a domain on one; reverse: the name of an address; forward: whether that name leads back.',
    }),
    subject: words('The address, or the domain.'),
    list: wordsOrNull('The zone of the list; null for reverse and forward.'),
    state: state(`${STATES} It changes after two equal answers ten minutes apart.`),
    answer: words('What was answered: the codes of the list, the names of the address.'),
    since: time('Since when it is so.'),
    checked_at: timeOrNull('When it was last asked; null: not yet.'),
    words: words('The state in a sentence.'),
    mend: wordsOrNull('What to do; null: nothing.'),
    page: wordsOrNull('The page of the list about it.'),
  },
  filters: {
    kind: { column: 'kind', about: `Only these kinds. ${EXTENSION}` },
    state: { column: 'status', about: `Only these states. ${EXTENSION}` },
  },
  actions: [
    {
      kind: 'view',
      path: '/watches',
      id: 'listWatches',
      operator: true,
      scope: 'emails:read',
      params: ['filter', 'page'],
      about: `List what is watched. ${EXTENSION}`,
      run({ filters, parts }) {
        const kinds = chosen(filters, 'kind', valuesOf('watches', 'kind'))
        const states = chosen(filters, 'state', WATCH_STATUSES)
        return listWatches(parts.store)
          .filter(({ kind, status }) => kinds.includes(kind) && states.includes(status))
          .map(rowOf)
      },
    },
  ],
})

export const watchChanges = define('watch-changes', {
  table: 'watch_changes',
  about: `A change of something that is watched; kept for 400 days. ${EXTENSION}`,
  attributes: {
    state: state(STATES),
    previous_state: state('The state before.'),
    answer: words('What was answered.'),
    at: time('When the answer was first seen.'),
  },
  actions: [
    {
      kind: 'view',
      path: '/watches/:watch/history',
      id: 'listWatchHistory',
      operator: true,
      scope: 'emails:read',
      params: ['page'],
      about: `List the changes of a watch, the newest first. ${EXTENSION}`,
      run(call) {
        const watch = watchById(call.parts.store, pathParameter(call, 'watch'))
        if (!watch) throw refuse('not_found', 'There is no such watch.')
        return changesOf(call.parts.store, watch.key).map((row) => ({ ...row, id: `${watch.id}-${row.key}` }))
      },
    },
  ],
})
