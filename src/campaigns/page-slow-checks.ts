// The checks of a campaign that take seconds: whether its links answer, and the verdict of SpamAssassin.
import { html } from 'hono/html'
import { badge, type Html } from '../webui/widgets.ts'
import { text, type Visit } from '../webui/visit.ts'

/** A link that starts the checks, or their results. */
export async function slowChecks(visit: Visit, id: string): Promise<Html> {
  if (visit.reading) return html``
  if (visit.query('look') !== 'closer')
    return html`<p><a href="?look=closer">Check links, pictures and the spam score</a>; this takes a few seconds.</p>`
  const [links, spam] = await Promise.all([
    visit.all(`/campaigns/${id}/links`, 50),
    visit.get(`/campaigns/${id}/spam-verdict`),
  ])
  const silent = links.filter((link) => link.attributes['ok'] !== true)
  const judged = spam.one?.attributes as
    | { judged: boolean; score: number; required: number; rules: string[]; reason: string | null }
    | undefined
  return html`<ul class="checks">
    ${
      silent.length === 0
        ? html`<li>
            ${badge('ok')}
            ${links.length === 0 ? 'There is no link to check.' : `Every link and picture answers (${links.length}).`}
          </li>`
        : silent.map((link) => html`<li>${badge('warn')} ${text(link, 'url')} ${text(link, 'found')}.</li>`)
    }
    ${
      judged?.judged
        ? html`<li>
            ${badge(judged.score < judged.required ? 'ok' : 'warn')} SpamAssassin gives it ${judged.score} points; with
            ${judged.required} it is called spam.
            ${judged.rules.length === 0 ? '' : html`<span class="soft">${judged.rules.join(', ')}</span>`}
          </li>`
        : html`<li class="soft">${judged?.reason ?? spam.errors[0]?.detail ?? ''} The words were not judged.</li>`
    }
  </ul>`
}
