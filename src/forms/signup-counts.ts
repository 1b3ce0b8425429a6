// What /metrics shows about forms (AU111): sign-ups by outcome, emails by kind, requests that a limit stopped, and
// paused forms. No label is an address.
import { Counter } from '../base/counters.ts'
import { counterMetric, type Metric } from '../parts/part.ts'
import { raw } from '../store/query.ts'

/** The outcomes of a sign-up that passed the checks of its page. */
export const OUTCOMES = [
  'confirmation_sent',
  'subscribed',
  'already_subscribed',
  'paused',
  'suppressed',
  'limited',
  'refused_lately',
] as const
export type Outcome = (typeof OUTCOMES)[number]

/** How a sign-up ends that waits for its confirmation. */
const ENDS = ['confirmed', 'refused', 'expired', 'bounced'] as const

export const FORM_EVENTS = {
  signups: new Counter(
    'postrider_signups_total',
    'Sign-ups by outcome.',
    OUTCOMES.map((outcome) => ({ outcome })),
  ),
  ends: new Counter(
    'postrider_signup_results_total',
    'Sign-ups that ended, by result.',
    ENDS.map((result) => ({ result })),
  ),
  messages: new Counter('postrider_form_messages_total', 'Messages of contact forms that were delivered to an inbox.', [
    {},
  ]),
  stopped: new Counter(
    'postrider_form_requests_stopped_total',
    'Requests to forms that did not become a sign-up, by reason.',
    ['client', 'honeypot', 'origin', 'busy', 'check'].map((reason) => ({ reason })),
  ),
  paused: new Counter('postrider_forms_paused_automatically_total', 'Forms that a limit has paused.', [{}]),
}

export const formFigures: readonly Metric[] = [
  ...Object.values(FORM_EVENTS).map(counterMetric),
  {
    name: 'postrider_forms_paused',
    help: 'Forms that are paused.',
    type: 'gauge',
    values: ({ store }) => {
      const paused = raw<{ count: number }>(
        `select count(*) as count from forms where status = 'paused' and deleted_at is null`,
      )
      return [[{}, store.one(paused).count]]
    },
  },
]
