// Privacy: the rights of recipients to erasure and to an export of their data.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { field, form } from '../webui/forms.ts'
import { badge, live, pageOf, pager, table, time } from '../webui/widgets.ts'
import { privacyRequests } from './api-requests.ts'
import { done, type Form, type Place } from '../webui/place.ts'
import { text, type Answer, type Visit } from '../webui/visit.ts'

async function show(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const answer = await visit.get(privacyRequests, `/privacy-requests?${pageOf(visit)}`)
  const rows = answer.many.map((each) => [
    text(each, 'kind') === 'erasure' ? 'Forget' : 'Export',
    html`<code>${text(each, 'recipient_hash').slice(0, 16)}…</code>`,
    badge(text(each, 'status')),
    time(each.attributes.requested_at),
    time(each.attributes.finished_at),
  ])
  return page(visit, {
    title: 'Privacy',
    about: 'For people who ask what you know of them, or ask to be forgotten.',
    errors,
    done: done(visit),
    body: html`${
        visit.reading
          ? ''
          : html`<h2>Export</h2>
              <p class="soft">
                What is known of a person. A link to the bundle is mailed to the owner of the account, and lasts a day.
              </p>
              ${form(
                visit,
                'export',
                html`${field({ name: 'address', label: 'Address', type: 'email', required: true, value: typed?.get('address') ?? '' })}
                  <button class="plain">Export</button>`,
              )}
              <h2>Forget</h2>
              <p class="soft">Everything that names the address is erased, and it is not written to again.</p>
              ${form(
                visit,
                'forget',
                html`${field({ name: 'forgotten', label: 'Address to forget', type: 'email', required: true, value: typed?.get('forgotten') ?? '' })}
                  <button class="danger">Forget this person</button>`,
                {
                  confirm:
                    'Everything that names this address is erased, and it is not written to again. This cannot be taken back.',
                },
              )}`
      }
      <h2>Requests</h2>
      ${live(
        visit,
        html`${table('Requests', ['What', 'Person', { title: 'Status', kind: 'status' }, { title: 'Requested', kind: 'time' }, { title: 'Finished', kind: 'time' }], rows, 'No request yet.')}
        ${pager(visit, answer)}`,
      )}`,
  })
}

export const privacy: Place = {
  path: '/privacy',
  show: (visit) => show(visit),
  async act(visit, given) {
    const forgets = given.action === 'forget'
    const answer = forgets
      ? await visit.ask('DELETE', `/recipients/${encodeURIComponent(given.get('forgotten'))}/forget`)
      : await visit.ask('GET', `/recipients/${encodeURIComponent(given.get('address'))}/data`)
    return answer.status === 202
      ? visit.say(
          '/privacy',
          forgets
            ? `${given.get('forgotten')} is being forgotten; the list below shows when it is done.`
            : `The export of ${given.get('address')} is being made; its link is mailed to the owner of the account.`,
        )
      : show(visit, answer.errors, given)
  },
}
