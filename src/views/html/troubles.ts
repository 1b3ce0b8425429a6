// A list of problems that a user has to solve, each with its weight and at most one action.
import { html } from 'hono/html'
import { icon } from './icons.ts'
import type { Html } from './widgets.ts'

export interface NeedsLook {
  /** `bad`: email is lost or rejected. `waits`: it will be, or work is blocked. */
  weight: 'bad' | 'waits'
  what: Html | string
  /** The one action: its path and its label. */
  to?: string
  action?: string
}

const WEIGHTS = { bad: 'Problem', waits: 'Warning' } as const

export const troubles = (found: readonly NeedsLook[]): Html =>
  html`<ul class="attention">
    ${found.map(
      ({ action, to, weight, what }) =>
        html`<li class="${weight}">
          ${icon(weight === 'bad' ? 'problem' : 'warning')} <span class="hidden">${WEIGHTS[weight]}:</span>
          <div>${what}</div>
          ${to === undefined || action === undefined ? '' : html`<a class="button plain small" href="${to}">${action}</a>`}
        </li>`,
    )}
  </ul>`
