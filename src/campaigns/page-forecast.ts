// How many days a campaign takes, on its start page; a start that takes more than three is asked for once more (DV12).
import { html } from 'hono/html'
import { form } from '../webui/forms.ts'
import { found, type Form } from '../webui/place.ts'
import { count, counted, figures, table, time, type Html } from '../webui/widgets.ts'
import { flag, number, objects, text, type Thing, type Visit } from '../webui/visit.ts'
import { campaignForecasts } from './api-forecast.ts'

export type ShownForecast = Thing<typeof campaignForecasts>

/** A start that takes more days is asked for once more. */
const MOST_DAYS = 3
const SHOWN = 20

export const forecastOf = async (visit: Visit, id: string): Promise<ShownForecast> =>
  found(await visit.get(campaignForecasts, `/campaigns/${id}/forecast`)).one

const daysOf = (forecast: ShownForecast): number | null => forecast.attributes.days ?? null

/** The name of so many days in a form: what a person has agreed to. */
const agreement = (forecast: ShownForecast): string => String(daysOf(forecast) ?? 'never')

const todayOf = (forecast: ShownForecast): number =>
  objects(forecast, 'receivers').reduce((sum, { today }) => sum + today, 0)

/** "It takes 6 days: 16 of 1,000 today." */
function sentence(forecast: ShownForecast): string {
  const days = daysOf(forecast)
  const first = `${count(todayOf(forecast))} of ${count(number(forecast, 'recipients'))} today`
  return days === null ? `It would not end: ${first}.` : `It takes ${counted(days, 'day')}: ${first}.`
}

/** Nothing is shown for a campaign that goes out today. */
export function forecastPart(forecast: ShownForecast): Html | '' {
  const days = daysOf(forecast)
  const relayed = number(forecast, 'relayed')
  if (days !== null && days <= 1 && relayed === 0) return ''
  return html`<h2>How long it takes</h2>
    <p>
      ${sentence(forecast)} ${days === null || days <= 1 ? '' : html`It ends ${time(forecast.attributes.ends_at)}.`}
      ${relayed === 0 ? '' : `${count(relayed)} go by a relay.`}
    </p>
    <p class="soft">
      Receivers take little mail from an address that is new to them, and more after each good day (warm-up). What waits
      goes out by itself. ${flag(forecast, 'exact') ? '' : text(forecast, 'reason')}
    </p>
    <details>
      <summary>By receiver</summary>
      ${table(
        'How long it takes, by receiver',
        [{ title: 'Receiver' }, ...figures('Recipients', 'Today', 'Days')],
        objects(forecast, 'receivers')
          .slice(0, SHOWN)
          .map((each) => [each.receiver, count(each.recipients), count(each.today), each.days ?? 'no end']),
        '',
      )}
    </details>`
}

/** "1,344 wait for their receivers (warm-up). The last ones go out 3 February." Nothing when none waits. */
export function waitsPart(forecast: ShownForecast | undefined): Html | '' {
  const waiting = forecast ? number(forecast, 'waiting_for_warmup') : 0
  if (!forecast || waiting === 0) return ''
  return html`<p>
    ${waiting === 1 ? '1 mail waits' : `${count(waiting)} mails wait`}: receivers take only so much a day from an
    address that is new to them (warm-up).
    ${daysOf(forecast) === null ? 'At these allowances it does not end.' : html`If all days are good, it ends ${time(forecast.attributes.ends_at)}.`}
    <a href="/why/${forecast.id}">Why?</a>
  </p>`
}

/** Whether a start takes longer than a person may expect, and they have not agreed to just that. */
export const takesLong = (forecast: ShownForecast, given: Form): boolean =>
  (daysOf(forecast) ?? Infinity) > MOST_DAYS && given.get('days') !== agreement(forecast)

/** The same start again, with what was typed, as a question. */
export function askAgain(visit: Visit, forecast: ShownForecast, given: Form): Html {
  const days = daysOf(forecast)
  return html`<div class="alert" role="alert">
    <p>
      ${sentence(forecast)}
      ${days === null ? 'Some of it would wait for ever.' : html`It ends ${time(forecast.attributes.ends_at)}.`} Start
      it all the same?
    </p>
    ${form(
      visit,
      given.action,
      html`<input type="hidden" name="days" value="${agreement(forecast)}" />
        <input type="hidden" name="at" value="${given.get('at')}" />
        <input type="hidden" name="typed" value="${given.get('typed')}" />
        <button>${days === null ? 'Start it all the same' : `Start it over ${counted(days, 'day')}`}</button>`,
    )}
  </div>`
}
