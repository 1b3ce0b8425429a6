// The way of a mail: each step of its delivery with the servers' replies, in the order of time. What webhooks were told
// is one step that opens.
import { html } from 'hono/html'
import { attempts } from '../delivery/api-attempts.ts'
import { badge, counted, exactTime, type Html } from '../webui/widgets.ts'
import { answerOf, flag, relatedId, text, type Thing } from '../webui/visit.ts'
import { protectionWords } from '../smtp/security.ts'
import { outboundWebhooks } from '../webhooks/api.ts'
import type { MailResource } from './page-contents.ts'

/** One step of a mail's delivery. */
interface TimelineStep {
  at: string
  what: Html
}

export type AttemptResource = Thing<typeof attempts>
export type Told = Thing<typeof outboundWebhooks>

/** What a reply means, above the server's words. */
const meaning = (attempt: AttemptResource): Html | '' =>
  text(attempt, 'reason') === '' ? '' : html`<div>${text(attempt, 'reason')}</div>`

const quote = (said: string): Html | '' => (said === '' ? '' : html`<blockquote>${said}</blockquote>`)

function attemptStep(attempt: AttemptResource): TimelineStep {
  const at = text(attempt, 'at')
  const said = answerOf(attempt.attributes)
  const outcome = badge(text(attempt, 'outcome'))
  if (flag(attempt, 'reported'))
    return {
      at,
      what: html`A report for ${text(attempt, 'address')} came back: ${outcome} ${meaning(attempt)} ${quote(said)}`,
    }
  const where = text(attempt, 'remote_mta')
  const dialogue = text(attempt, 'dialogue')
  const { tls } = attempt.attributes
  const source = text(attempt, 'source')
  const route = text(attempt, 'route')
  return {
    at,
    what: html`Attempt ${text(attempt, 'number')} for ${text(attempt, 'address')}: ${outcome}
    ${where === '' ? '' : html`<span class="soft">at ${where} ${protectionWords(tls?.protocol ?? null, tls?.proof ?? null)}${source === '' ? '' : `, from ${source}`}${route === '' ? '' : `, by the relay ${route}`}</span>`}
    ${meaning(attempt)} ${quote(said)}
    ${
      dialogue === ''
        ? ''
        : html`<details>
            <summary>The SMTP dialogue</summary>
            <pre tabindex="0">${dialogue}</pre>
          </details>`
    }`,
  }
}

/** What webhooks were told, folded into one step at the time of the first; how many did not take it is seen. */
function webhookStep(told: readonly Told[]): TimelineStep[] {
  const [first] = told
  if (!first) return []
  const taken = told.filter((each) => text(each, 'outcome') === 'delivered').length
  return [
    {
      at: text(first, 'created_at'),
      what: html`<details>
        <summary>
          ${counted(told.length, 'webhook call')}${taken === told.length ? '' : html`, ${told.length - taken} not taken`}
        </summary>
        <ul class="calls">
          ${told.map((each) => html`<li>${webhookCall(each)}</li>`)}
        </ul>
      </details>`,
    },
  ]
}

function webhookCall(delivery: Told): Html {
  const webhook = relatedId(delivery, 'webhook')
  const status = text(delivery, 'response_status')
  return html`<code>${text(delivery, 'event')}</code> for
    ${webhook ? html`<a href="/webhooks/${webhook}">a webhook</a>` : 'a webhook that was removed'}:
    ${badge(text(delivery, 'outcome'))} ${status === '' ? '' : html`<span class="soft">answered ${status}</span>`}
    ${exactTime(text(delivery, 'created_at'))} ${quote(text(delivery, 'reason'))}`
}

const MOMENTS = [
  ['first_opened_at', 'A person opened it for the first time.'],
  ['first_clicked_at', 'A person followed a link for the first time.'],
  ['complained_at', 'The recipient complained about it.'],
  ['suppressed_at', 'It was not sent: the address is suppressed.'],
  ['rejected_at', 'This server refused to send it.'],
] as const

export function timeline(mail: MailResource, tried: readonly AttemptResource[], told: readonly Told[]): Html {
  const steps: TimelineStep[] = [
    { at: text(mail, 'created_at'), what: html`Accepted` },
    ...tried.map(attemptStep),
    ...webhookStep(told),
    ...MOMENTS.flatMap(([name, words]) =>
      text(mail, name) === '' ? [] : [{ at: text(mail, name), what: html`${words}` }],
    ),
  ].sort((one, other) => (one.at < other.at ? -1 : one.at > other.at ? 1 : 0))
  return html`<ol class="timeline">
    ${steps.map(
      ({ at, what }) =>
        html`<li>
          ${exactTime(at)}
          <div>${what}</div>
        </li>`,
    )}
  </ol>`
}
