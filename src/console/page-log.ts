// The log of the server, for operators: one line for each entry, which unfolds to all its fields.
import { html } from 'hono/html'
import { DAY, HOUR, iso, MINUTE } from '../base/clock.ts'
import { isNameIn } from '../base/one-of.ts'
import { logLines } from '../http/api-log.ts'
import { page, serverTabs } from '../views/html/frame.ts'
import type { Place } from '../views/html/place.ts'
import { record, text, type Thing, type Visit } from '../views/html/visit.ts'
import {
  badge,
  exactTime,
  facts,
  filter,
  live,
  pageOf,
  pager,
  search,
  segments,
  type Html,
} from '../views/html/widgets.ts'

const SIZE = 30

const LEVELS = { '': 'All', warn: 'Warnings', error: 'Errors' } as const

/** The time ranges, each with its length. */
const SPANS = {
  '': ['Any time', Infinity],
  '15m': ['15 minutes', 15 * MINUTE],
  '1h': ['1 hour', HOUR],
  '1d': ['24 hours', DAY],
} as const

/** Which lines a page shows. */
interface Asked {
  level: keyof typeof LEVELS
  span: keyof typeof SPANS
  q: string
  /** The end of the time range. Older pages keep that of the first one, so that new lines do not move their lines. */
  at: number
}

function askedOf(visit: Visit): Asked {
  const [level, span, at] = ['level', 'span', 'at'].map((name) => visit.query(name)) as [string, string, string]
  return {
    level: isNameIn(LEVELS, level) ? level : '',
    span: isNameIn(SPANS, span) ? span : '',
    q: visit.query('q'),
    at: /^\d{1,15}$/.test(at) ? Number(at) : visit.now(),
  }
}

const filtersOf = ({ at, level, q, span }: Asked): string =>
  Object.entries({ level, search: q, from: span === '' ? '' : iso(at - SPANS[span][1]), to: iso(at) })
    .flatMap(([name, value]) => (value === '' ? [] : [`filter%5B${name}%5D=${encodeURIComponent(value)}`]))
    .join('&')

/** A choice of one parameter. Its links keep the other parameters. */
const choice = (
  label: string,
  { level, q, span }: Asked,
  name: 'level' | 'span',
  names: Record<string, string>,
): Html =>
  segments(
    label,
    Object.entries(names).map(([value, words]) => {
      const kept = Object.entries({ q, level, span, [name]: value }).filter(([, each]) => each !== '')
      return { to: `?${new URLSearchParams(kept).toString()}`, name: words, here: { level, span }[name] === value }
    }),
  )

const shown = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

function entry(each: Thing<typeof logLines>): Html {
  const { message, ...fields } = record(each, 'fields')
  const level = text(each, 'level')
  const rows = Object.entries(fields).filter(([, value]) => value !== '')
  return html`<details id="${each.id}">
    <summary>
      ${exactTime(each.attributes.at)} ${level === 'warn' || level === 'error' ? badge(level) : ''}
      <b>${shown(message ?? '')}</b>
      <span class="soft">${rows.map(([name, value]) => `${name}: ${shown(value)}`).join(', ')}</span>
    </summary>
    ${facts([
      ['event', text(each, 'event')],
      ['level', level],
      ['time', text(each, 'at')],
      ...rows.map(([name, value]) => [name, html`<span class="as-written">${shown(value)}</span>`] as const),
    ])}
  </details>`
}

export const logPage: Place = {
  path: '/server/log',
  operator: true,
  async show(visit) {
    const asked = askedOf(visit)
    const answer = await visit.get(logLines, `/server/log?${filtersOf(asked)}&${pageOf(visit, SIZE)}`)
    const { level, q, span } = asked
    const spans = Object.fromEntries(Object.entries(SPANS).map(([name, [words]]) => [name, words]))
    const nothing = q + level + span === '' ? 'The log is empty.' : 'No lines match these filters.'
    return page(visit, {
      title: 'Server',
      about: 'Recent log lines, newest first. They are kept in memory until the server stops.',
      errors: answer.errors,
      body: html`${serverTabs(visit, '/server/log')}
      ${filter(
        [q, level, span].filter(Boolean).length,
        html`${search(visit, 'Search text and fields', '', { ...(level && { level }), ...(span && { span }) })}
          <div class="filters">
            ${choice('Level', asked, 'level', LEVELS)} ${choice('Time', asked, 'span', spans)}
          </div>`,
      )}
      ${live(
        visit,
        html`${answer.many.length === 0 ? html`<div class="empty">${nothing}</div>` : html`<div class="log">${answer.many.map(entry)}</div>`}
        ${pager(visit, answer, undefined, { at: String(asked.at) })}`,
      )}`,
    })
  },
}
