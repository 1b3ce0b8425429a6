// Privacy: the rights of recipients to erasure and to an export of their data.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { field, form } from '../webui/forms.ts'
import { badge, live, pageOf, pager, table, time } from '../webui/widgets.ts'
import { privacyRequests } from './api-requests.ts'
import { done, lead, type Form, type Place } from '../webui/place.ts'
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
    about:
      'Forget a person, or gather what is known of them. A bundle is mailed to the account’s owner as a link that lasts a day.',
    errors,
    done: done(visit),
    body: html`${
      visit.reading
        ? ''
        : html`${form(
            visit,
            'export',
            html`${field({ name: 'address', label: 'Address', type: 'email', required: true, value: typed?.get('address') ?? '' })}
              <button>Export what is known</button>`,
          )}
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
    ${live(
      visit,
      html`${table('Requests', ['What', 'Person (hash)', { title: 'Status', kind: 'status' }, { title: 'Asked', kind: 'time' }, { title: 'Done', kind: 'time' }], rows, 'Nobody has asked yet.')}
      ${pager(visit, answer)}`,
    )}`,
  })
}

export const privacy: Place = {
  path: '/privacy',
  show: (visit) => show(visit),
  async act(visit, given) {
    const answer =
      given.action === 'forget'
        ? await visit.ask('DELETE', `/recipients/${encodeURIComponent(given.get('forgotten'))}/forget`)
        : await visit.ask('GET', `/recipients/${encodeURIComponent(given.get('address'))}/data`)
    return answer.status === 202 ? lead(visit, '/privacy', 'asked') : show(visit, answer.errors, given)
  },
}
