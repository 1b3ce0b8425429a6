// A list of what needs a person, each with its weight and at most one action.
import { html } from 'hono/html'
import { icon } from './icons.ts'
import type { Html } from './widgets.ts'

export interface NeedsLook {
  /** `bad`: mail is lost or refused. `waits`: it will be, or something stands still. */
  weight: 'bad' | 'waits'
  what: Html | string
  /** The one action: where it leads, and its words. */
  to?: string
  action?: string
}

const WEIGHTS = { bad: 'Problem', waits: 'Warning' } as const

/** What needs a person, each with its weight and at most one action. */
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
