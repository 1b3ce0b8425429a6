// The words of a search over mails, as the filters of the page write them: a filter replaces its own word and leaves
// the others as they were typed.
import { DAY } from '../base/clock.ts'
import { TERM } from './search.ts'

/** The value of a word such as `domain:`; '' when the search has none. */
export function wordIn(q: string, name: string): string {
  for (const [, key, quoted, plain] of q.matchAll(TERM)) if (key?.toLowerCase() === name) return quoted ?? plain ?? ''
  return ''
}

/** The search with these words in place of those with the same names; a word without a value is taken out. */
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

/** The name of a thing of another subject; '' when it has none. */
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

/** The day so many days later. */
export const dayAfter = (day: string, days: number): string => {
  const at = Date.parse(`${day}T12:00:00Z`) + days * DAY
  return Number.isNaN(at) ? '' : new Date(at).toISOString().slice(0, 10)
}

/** The day that a word of the filter was made from; '' when it was typed in another form. */
export const dayOf = (word: string): string => /^(\d{4}-\d\d-\d\d)(?:T00:00(?:[+-]\d\d:\d\d)?)?$/.exec(word)?.[1] ?? ''
