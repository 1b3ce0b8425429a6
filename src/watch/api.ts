// The checks of blocklists and reverse DNS, for operators (D160).
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { define } from '../jsonapi/define.ts'
import { time, timeOrNull, words, wordsOrNull } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { valuesOf } from '../store/schema/tables.ts'
import { WATCH_STATUSES } from '../store/states/watch.ts'
import { listWatches, type WatchRow } from './watches.ts'
import { shownWords } from './words.ts'

/** Returns the values of a filter, or all if it is absent. Throws 400 for another value. */
function chosen(filters: ReadonlyMap<string, string[]>, name: string, all: readonly string[]): readonly string[] {
  const values = filters.get(name) ?? all
  const strange = values.find((value) => !all.includes(value))
  if (strange === undefined) return values
  const parameter = `filter[${name}]`
  throw refuse('unsupported_filter', `"${strange}" is not a supported value. Use one or more of ${all.join(', ')}.`, {
    parameter,
  })
}

const rowOf = (watch: WatchRow) => ({
  ...watch,
  state: watch.status,
  list: watch.list === '' ? null : watch.list,
  ...shownWords(watch),
})

const STATES =
  '`clear`: no problem. `listed`: on the blocklist. `wrong`: the PTR record is wrong. `unknown`: no reliable answer.'
const state = (about: string) => field(z.enum(WATCH_STATUSES), { about })

export const watches = define('watches', {
  table: 'watches',
  called: 'Watch',
  about: 'Blocklist and reverse DNS monitoring of the IP addresses and domains of this server. Operators only.',
  extension: true,
  attributes: {
    kind: field(z.enum(valuesOf('watches', 'kind')), {
      about:
        'Kind of check. `blocklist`: an IP address on a blocklist. `domain_list`: a domain on a blocklist. `reverse`: the PTR record of an IP address. `forward`: whether the PTR name is forward-confirmed.',
    }),
    subject: words('IP address or the domain.'),
    list: wordsOrNull('Zone of the blocklist. Null for `reverse` and `forward`.'),
    state: state(`${STATES} It changes after two equal answers ten minutes apart.`),
    answer: words('DNS answer: the return codes of the blocklist, or the PTR names of the IP address.'),
    since: time('Time since which the state applies.'),
    checked_at: timeOrNull('Time of the last check. Null before the first.'),
    message: words('State, in one sentence.'),
    fix: wordsOrNull('Recommended fix. Null if no fix is needed.'),
    url: wordsOrNull('URL of the page about the entry on the website of the blocklist. Null if absent.'),
  },
  filters: {
    kind: { column: 'kind', about: 'Filter by kind. Commas mean "or".' },
    state: { column: 'status', about: 'Filter by state. Commas mean "or".' },
  },
  actions: [
    {
      kind: 'view',
      path: '/watches',
      id: 'listWatches',
      operator: true,
      scope: 'emails:read',
      params: ['filter', 'page'],
      about: 'List monitored IP addresses and domains.',
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
