// What a person chooses for the look of pages: colours, the height of rows, the zone of times. A browser keeps each
// choice in a cookie of its own; a cookie with anything else counts as none.
import type { Context } from 'hono'
import { getCookie } from 'hono/cookie'
import { html } from 'hono/html'

/** The choices by their names; '' is what nobody chose. */
export const LOOK = {
  theme: [
    ['', 'As the system'],
    ['light', 'Light'],
    ['dark', 'Dark'],
  ],
  rows: [
    ['', 'Usual rows'],
    ['dense', 'Dense rows'],
  ],
  times: [
    ['', 'Times of this place'],
    ['utc', 'Times in UTC'],
  ],
} as const

export type LookName = keyof typeof LOOK
export const LOOK_NAMES = Object.keys(LOOK) as LookName[]

export const isChoice = (name: LookName, value: string): boolean =>
  value !== '' && LOOK[name].some(([each]) => each === value)

/** What the person chose; '' when nothing. */
export function chosenLook(context: Context, name: LookName): string {
  const value = getCookie(context, name) ?? ''
  return isChoice(name, value) ? value : ''
}

/** The attributes of the page's root that the styles and the scripts read. */
export const lookOf = (context: Context): ReturnType<typeof html>[] =>
  LOOK_NAMES.flatMap((name) => {
    const value = chosenLook(context, name)
    return value === '' ? [] : [html`data-${name}="${value}" `]
  })
