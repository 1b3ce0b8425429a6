// The terms of an email search, as the filters of the page write them: a filter replaces its own term and leaves the
// others as they were typed.
import { dateOf, DAY } from '../base/clock.ts'
import { TERM } from './search.ts'

/** The value of a search term such as `domain:`, or '' if the search does not contain it. */
export function wordIn(q: string, name: string): string {
  for (const [, key, quoted, plain] of q.matchAll(TERM)) if (key?.toLowerCase() === name) return quoted ?? plain ?? ''
  return ''
}

/** The number of filters of the page in a search, apart from the status. */
export const termsIn = (q: string): number =>
  ['after', 'before', 'domain', 'campaign', 'agent'].filter((name) => wordIn(q, name) !== '').length

/** The search with these terms in place of those with the same names. A term without a value is removed. */
export function withWords(q: string, words: Readonly<Record<string, string>>): string {
  const kept = [...q.matchAll(TERM)].flatMap(([whole, key]) =>
    key !== undefined && Object.hasOwn(words, key.toLowerCase()) ? [] : [whole],
  )
  const added = Object.entries(words).flatMap(([name, value]) => {
    const plain = value.replaceAll('"', '').trim()
    return plain === '' ? [] : [`${name}:${/\s/.test(plain) ? `"${plain}"` : plain}`]
  })
  return [...kept, ...added].join(' ')
}

/** The name of a related resource, or '' if it has none. */
export const nameOf = (attributes: Readonly<Record<string, unknown>> | undefined): string =>
  typeof attributes?.['name'] === 'string' ? attributes['name'] : ''

/** The day of a point in time in a zone: "2026-11-25". */
export const dayIn = (zone: string, at: number): string =>
  new Intl.DateTimeFormat('en-CA', { timeZone: zone, year: 'numeric', month: '2-digit', day: '2-digit' }).format(at)

/** How far a zone is from UTC at a time: "+01:00", and "" for UTC. */
function offsetOf(zone: string, at: number): string {
  const parts = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' }).formatToParts(at)
  const offset = /[+-]\d\d:\d\d/.exec(parts.find(({ type }) => type === 'timeZoneName')?.value ?? '')?.[0] ?? ''
  return offset === '+00:00' ? '' : offset
}

/** The beginning of a day in a zone, as `after:` and `before:` take it: a day of UTC is "2026-11-25". */
export function dayWord(day: string, zone: string): string {
  const noon = Date.parse(`${day}T12:00:00Z`)
  if (!/^\d{4}-\d\d-\d\d$/.test(day) || Number.isNaN(noon)) return ''
  const offset = offsetOf(zone, noon - DAY / 2)
  return offset === '' ? day : `${day}T00:00${offset}`
}

/** The day this many days later. */
export const dayAfter = (day: string, days: number): string => {
  const at = Date.parse(`${day}T12:00:00Z`) + days * DAY
  return Number.isNaN(at) ? '' : dateOf(at)
}

/** The day in a search term of the filter, or '' if it was typed in another form. */
export const dayOf = (word: string): string => /^(\d{4}-\d\d-\d\d)(?:T00:00(?:[+-]\d\d:\d\d)?)?$/.exec(word)?.[1] ?? ''
