// The checks of a campaign that take seconds: whether its links answer, and the verdict of SpamAssassin.
import { html } from 'hono/html'
import { badge, type Html } from '../webui/widgets.ts'
import { campaignLinks, spamVerdicts } from './api-checks.ts'
import { flag, number, text, texts, type Visit } from '../webui/visit.ts'

/** A link that starts the checks, or their results. */
export async function slowChecks(visit: Visit, id: string): Promise<Html> {
  if (visit.reading) return html``
  if (visit.query('look') !== 'closer')
    return html`<p><a href="?look=closer">Check links, pictures and the spam score</a>; this takes a few seconds.</p>`
  const [links, spam] = await Promise.all([
    visit.all(campaignLinks, `/campaigns/${id}/links`, 50),
    visit.get(spamVerdicts, `/campaigns/${id}/spam-verdict`),
  ])
  const silent = links.filter((link) => !flag(link, 'ok'))
  const verdict = spam.one
  const score = verdict ? number(verdict, 'score') : 0
  const required = verdict ? number(verdict, 'required') : 0
  const rules = verdict ? texts(verdict, 'rules') : []
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
      verdict && flag(verdict, 'judged')
        ? html`<li>
            ${badge(score < required ? 'ok' : 'warn')} SpamAssassin gives it ${score} points; with ${required} it is
            called spam. ${rules.length === 0 ? '' : html`<span class="soft">${rules.join(', ')}</span>`}
          </li>`
        : html`<li class="soft">
            ${verdict ? text(verdict, 'reason') : (spam.errors[0]?.detail ?? '')} The words were not judged.
          </li>`
    }
  </ul>`
}
