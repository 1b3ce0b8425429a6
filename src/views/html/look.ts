// The display settings: colours, the height of rows, the zone of times. A browser keeps each setting in a cookie of its
// own, and an unknown value is ignored.
import type { Context } from 'hono'
import { getCookie } from 'hono/cookie'
import { html } from 'hono/html'

/** The settings by their names. '' is the default. */
export const LOOK = {
  theme: [
    ['', 'System'],
    ['light', 'Light'],
    ['dark', 'Dark'],
  ],
  rows: [
    ['', 'Comfortable'],
    ['dense', 'Compact'],
  ],
  times: [
    ['', 'Local time'],
    ['utc', 'UTC'],
  ],
} as const

export type LookName = keyof typeof LOOK
export const LOOK_NAMES = Object.keys(LOOK) as LookName[]

export const isChoice = (name: LookName, value: string): boolean =>
  value !== '' && LOOK[name].some(([each]) => each === value)

/** Returns the user's choice, or '' for the default. */
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
