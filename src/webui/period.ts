// The period of figures: what the page's address names, and the links to the others.
import { html } from 'hono/html'
import { isOneOf } from '../base/one-of.ts'
import type { Visit } from './visit.ts'
import type { Html } from './widgets.ts'

const PERIODS = ['24h', '7d', '30d'] as const
export const periodOf = (visit: Visit, otherwise = '24h'): string =>
  isOneOf(PERIODS, visit.query('period')) ? visit.query('period') : otherwise

export const periods = (visit: Visit, now: string): Html =>
  html`<nav class="segments" aria-label="Period">
    ${PERIODS.map(
      (each) =>
        html`<a href="${visit.context.req.path}?period=${each}" ${each === now ? html`aria-current="true"` : ''}
          >${each}</a
        >`,
    )}
  </nav>`
