// The duration of a campaign on its start page. A start that takes more than three days must be confirmed again.
import { html } from 'hono/html'
import { form } from '../views/html/forms.ts'
import { found, type Form } from '../views/html/place.ts'
import { count, counted, figures, table, time, type Html } from '../views/html/widgets.ts'
import { flag, number, objects, text, type Thing, type Visit } from '../views/html/visit.ts'
import { campaignForecasts } from './api-forecast.ts'

export type ShownForecast = Thing<typeof campaignForecasts>

/** A start that takes more days must be confirmed again. */
const MOST_DAYS = 3
const SHOWN = 20

export const forecastOf = async (visit: Visit, id: string): Promise<ShownForecast> =>
  found(await visit.get(campaignForecasts, `/campaigns/${id}/forecast`)).one

const daysOf = (forecast: ShownForecast): number | null => forecast.attributes.days ?? null

/** The confirmed number of days, as a form value. */
const agreement = (forecast: ShownForecast): string => String(daysOf(forecast) ?? 'never')

const todayOf = (forecast: ShownForecast): number =>
  objects(forecast, 'receivers').reduce((sum, { today }) => sum + today, 0)

/** "Sending takes 6 days: 16 of 1,000 today." */
function sentence(forecast: ShownForecast): string {
  const days = daysOf(forecast)
  const first = `${count(todayOf(forecast))} of ${count(number(forecast, 'recipients'))} today`
  return days === null ? `Sending would never finish: ${first}.` : `Sending takes ${counted(days, 'day')}: ${first}.`
}

/** Empty for a campaign that finishes today. */
export function forecastPart(forecast: ShownForecast): Html | '' {
  const days = daysOf(forecast)
  const relayed = number(forecast, 'relayed')
  if (days !== null && days <= 1 && relayed === 0) return ''
  return html`<h2>Sending time</h2>
    <p>
      ${sentence(forecast)} ${days === null || days <= 1 ? '' : html`It finishes ${time(forecast.attributes.ends_at)}.`}
      ${relayed === 0 ? '' : `${relayed === 1 ? '1 recipient is' : `${count(relayed)} recipients are`} sent through a relay.`}
    </p>
    <p class="soft">
      Mailbox providers accept little email from a new sending IP address, and more after each good day (warm-up).
      Queued emails are sent automatically. ${flag(forecast, 'exact') ? '' : text(forecast, 'reason')}
    </p>
    <details>
      <summary>By mailbox provider</summary>
      ${table(
        'Sending time by mailbox provider',
        [{ title: 'Provider' }, ...figures('Recipients', 'Today', 'Days')],
        objects(forecast, 'receivers')
          .slice(0, SHOWN)
          .map((each) => [each.receiver, count(each.recipients), count(each.today), each.days ?? 'never ends']),
        '',
      )}
    </details>`
}

/** How many emails the warm-up keeps in the queue, and when the last is sent. Empty if there are no such emails. */
export function waitsPart(forecast: ShownForecast | undefined, explained: boolean): Html | '' {
  const waiting = forecast ? number(forecast, 'waiting_for_warmup') : 0
  if (!forecast || waiting === 0) return ''
  return html`<p>
    ${waiting === 1 ? '1 email is' : `${count(waiting)} emails are`} queued because mailbox providers limit how much
    they accept per day from a new sending IP address (warm-up).
    ${daysOf(forecast) === null ? 'At the current daily limits, sending never finishes.' : html`If every day goes well, sending finishes ${time(forecast.attributes.ends_at)}.`}
    ${explained ? html`<a href="/why/${forecast.id}">Why?</a>` : ''}
  </p>`
}

/** Whether a start takes longer than expected and the user has not confirmed this duration. */
export const takesLong = (forecast: ShownForecast, given: Form): boolean =>
  (daysOf(forecast) ?? Infinity) > MOST_DAYS && given.get('days') !== agreement(forecast)

/** The confirmation prompt for the start, with the same input. */
export function askAgain(visit: Visit, forecast: ShownForecast, given: Form): Html {
  const days = daysOf(forecast)
  return html`<div class="alert" role="alert">
    <p>
      ${sentence(forecast)}
      ${days === null ? 'Some emails would stay in the queue.' : html`It finishes ${time(forecast.attributes.ends_at)}.`}
      Start anyway?
    </p>
    ${form(
      visit,
      given.action,
      html`<input type="hidden" name="days" value="${agreement(forecast)}" />
        <input type="hidden" name="at" value="${given.get('at')}" />
        <input type="hidden" name="typed" value="${given.get('typed')}" />
        <button>${days === null ? 'Start anyway' : `Send over ${counted(days, 'day')}`}</button>`,
    )}
  </div>`
}
