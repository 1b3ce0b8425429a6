// The server's log, and samples of its activity in the last hour, for operators (D76).
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { LEVELS, type LogEntry } from '../base/log.ts'
import { isOneOf } from '../base/one-of.ts'
import { definer, field } from '../jsonapi/resource.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, MOST_SEARCHED, time, words } from '../jsonapi/fields.ts'
import type { Samples } from './samples.ts'

const wrong = (name: string, detail: string) => refuse('unsupported_filter', detail, { parameter: `filter[${name}]` })

/** The texts of a line that a search looks at. */
const searched = ({ event, fields }: LogEntry): string =>
  Object.entries({ event, ...fields })
    .map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ')

/** Returns whether a line matches all filters. Throws 400 for an invalid filter. */
function matching(filters: ReadonlyMap<string, string[]>): (entry: LogEntry) => boolean {
  const valueOf = (name: string): string | undefined => filters.get(name)?.join(',')
  const point = (name: string): number | undefined => {
    const value = valueOf(name)
    const at = value === undefined ? undefined : Date.parse(value)
    if (Number.isNaN(at)) throw wrong(name, 'The time is not valid. Use ISO 8601, such as 2026-01-31T12:00:00Z.')
    return at
  }
  const [level = 'debug', search = '', from = -Infinity, to = Infinity] = [
    valueOf('level'),
    valueOf('search')?.toLowerCase(),
    point('from'),
    point('to'),
  ]
  if (!isOneOf(LEVELS, level)) throw wrong('level', `The level is not supported. Use ${LEVELS.join(', ')}.`)
  const least = LEVELS.indexOf(level)
  return (entry) =>
    entry.at >= from &&
    entry.at <= to &&
    LEVELS.indexOf(entry.level) >= least &&
    (search === '' || searched(entry).toLowerCase().includes(search))
}

export const logLines = define('log-lines', {
  table: 'users',
  about: 'Lines of the server log. For operators who are signed in to the console.',
  extension: true,
  attributes: {
    at: time('Time of the line.'),
    level: field(z.enum(LEVELS), { about: 'Level of the line.' }),
    event: words('Event. `docs/logs.md` lists all events.'),
    fields: field(z.record(z.string(), z.unknown()), { about: 'Fields of the line.' }),
  },
  filters: {
    level: { column: 'level', about: 'Filter by this level or a higher one.' },
    search: { column: 'event', whole: MOST_SEARCHED, about: 'Filter by text in the event or the fields.' },
    from: { column: 'at', about: 'Filter by time: at or after this time.' },
    to: { column: 'at', about: 'Filter by time: at or before this time.' },
  },
  actions: [
    {
      kind: 'view',
      scope: 'tokens:write',
      operator: true,
      person: true,
      params: ['filter', 'page'],
      path: '/server/log',
      id: 'listLogLines',
      about:
        'List the last 500 warnings and errors and the last 500 other lines of the log since the server started, newest first.',
      run: ({ filters, parts }) =>
        (parts.log.recent?.() ?? [])
          .filter(matching(filters))
          .map((entry) => ({ ...entry, key: entry.line, id: `line-${entry.at}-${entry.line}` }))
          .reverse(),
    },
  ],
})

export const serverSamples = definer<ApiDeps & { samples: Samples }>()('server-samples', {
  table: 'users',
  about: 'Activity of the server in intervals of ten seconds. For operators who are signed in to the console.',
  extension: true,
  attributes: {
    at: time('End of the interval.'),
    waiting: count('Number of queued recipients. Counting stops at 10,000.'),
    delivered: count('Number of recipients whose email was delivered in the interval.'),
    deferred: count('Number of attempts that were deferred in the interval.'),
    refused: count('Number of recipients with another final status in the interval.'),
    received: count('Number of messages that arrived in inboxes in the interval.'),
    memory: count('Memory of the process in bytes.'),
    busy: field(z.number(), { about: 'Share of the interval in which the main thread was busy, from 0 to 1.' }),
  },
  actions: [
    {
      kind: 'view',
      scope: 'tokens:write',
      operator: true,
      person: true,
      params: ['page'],
      path: '/server/samples',
      id: 'listServerSamples',
      about: "List samples of the server's activity in the last hour, newest first.",
      run: ({ parts }) =>
        parts.samples
          .all()
          .map((sample, index) => ({ ...sample, key: index + 1, id: `sample-${sample.at}` }))
          .reverse(),
    },
  ],
})
