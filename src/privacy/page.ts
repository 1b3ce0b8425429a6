// Privacy: the rights of recipients to erasure and to an export of their data.
import { html } from 'hono/html'
import { button, field, form } from '../views/html/forms.ts'
import { count, counted, facts, search, time, type Cell, type Html } from '../views/html/widgets.ts'
import { privacyRequests, recipients } from './api.ts'
import { recipientRequests } from './api-recipient-requests.ts'
import { tableOf } from '../views/table.ts'
import type { Form } from '../views/html/place.ts'
import { number, text, thingOf, type Thing, type Visit } from '../views/html/visit.ts'
import type { ListView } from '../views/list.ts'
import { listPlaces, type ShownList } from '../views/pages.ts'

/** One form for an address. Its numbers come before the buttons, so that an owner notices a wrong address. */
async function person({ visit }: ShownList<typeof privacyRequests>): Promise<Cell> {
  if (visit.reading) return ''
  const address = visit.query('q').trim()
  const asked = address === '' ? undefined : await visit.ask('GET', `/recipients/${encodeURIComponent(address)}`)
  const one = asked?.one && thingOf(recipients, asked.one)
  return html`${search(visit, 'Email address')}
    ${asked && !one ? html`<p class="bad" role="alert">${asked.status === 404 ? `No data about “${address}” is stored.` : `“${address}” is not an email address.`}</p>` : ''}
    ${one === undefined ? '' : found(visit, one)} ${await requested(visit)}
    <h2>Exports and erasures</h2>`
}

type AskedFor = Thing<typeof recipientRequests>

/** The open requests that recipients made on their own page, the most urgent first. */
async function requested(visit: Visit): Promise<Html | ''> {
  const open = await visit.get(
    recipientRequests,
    '/recipient-requests?filter%5Bstate%5D=open&sort=due_at&page%5Bsize%5D=100',
  )
  if (open.many.length === 0) return ''
  return html`<h2>Requests of recipients</h2>
    <p class="soft">
      These people made a request on the page of an unsubscribe link, and confirmed their address. They receive your
      answer by email.
    </p>
    ${tableOf(
      'Requests of recipients',
      [
        { title: 'Recipient', of: 'email' },
        { title: 'Request', of: (each) => (isErasure(each) ? 'Erasure' : 'Export') },
        { title: 'Due', of: (each) => time(each.attributes.due_at) },
        { title: 'Answer', of: (each) => answers(visit, each) },
      ],
      open.many,
      '',
    )}`
}

const isErasure = (each: AskedFor): boolean => text(each, 'kind') === 'erasure'

const answers = (visit: Visit, each: AskedFor): Html =>
  html`${
      isErasure(each)
        ? button(visit, 'fulfil', 'Erase data', {
            fields: { id: each.id },
            danger: true,
            confirm: `This erases all data that identifies ${text(each, 'email')}, and suppresses the address. This cannot be undone.`,
          })
        : button(visit, 'fulfil', 'Send the export', { fields: { id: each.id } })
    }
    <details>
      <summary>Decline</summary>
      ${form(
        visit,
        'decline',
        html`<input type="hidden" name="id" value="${each.id}" />${field({
            name: 'reason',
            label: 'Reason, which the recipient receives by email',
            id: `reason-${each.id}`,
            lines: 3,
          })}<button class="plain">Decline</button>`,
      )}
    </details>`

function found(visit: Visit, one: Thing<typeof recipients>): Html {
  const fields = { address: one.id }
  const mail = `/mail?q=${encodeURIComponent(`to:${one.id}`)}`
  const numbers = FOUND.map(([name, noun]) => counted(number(one, name), noun))
  return html`${facts(
      FOUND.map(([name, , label]) => {
        const shown = count(number(one, name))
        return [label, name === 'emails' ? html`<a href="${mail}">${shown}</a>` : shown] as const
      }),
    )}
    <p class="soft">
      An export collects all data about the person. You receive a download link by email, valid for one day. An erasure
      removes all data that identifies the address, and suppresses the address.
    </p>
    <div class="row">
      ${button(visit, 'export', 'Export data', { fields })}
      ${button(visit, 'forget', 'Erase data', {
        fields,
        danger: true,
        confirm: `This removes ${one.id} from ${numbers.join(', ')}, and from texts that mention it. The address is suppressed. This cannot be undone.`,
      })}
    </div>`
}

/** What is counted: the attribute, its words, and its label. */
const FOUND = [
  ['emails', 'email', 'Emails'],
  ['received', 'received message', 'Received messages'],
  ['contacts', 'audience', 'Audiences'],
  ['consents', 'consent', 'Consents'],
  ['suppressions', 'suppression', 'Suppressions'],
] as const

const list = (): ListView<typeof privacyRequests> => ({
  of: privacyRequests,
  from: '/privacy-requests',
  caption: 'Requests',
  live: true,
  columns: [
    { title: 'Type', of: (each) => (text(each, 'kind') === 'erasure' ? 'Erasure' : 'Export') },
    { title: 'Recipient', of: (each) => html`<code>${text(each, 'recipient_hash').slice(0, 16)}…</code>` },
    { title: 'Status', kind: 'status', of: 'status' },
    { title: 'Requested', kind: 'time', of: 'requested_at' },
    { title: 'Finished', kind: 'time', of: 'finished_at' },
  ],
  empty: 'No requests yet.',
})

const pathOf = (address: string, what: string): string => `/recipients/${encodeURIComponent(address)}/${what}`

const answered = (given: Form, attributes: Record<string, unknown>) => ({
  method: 'PATCH',
  path: `/recipient-requests/${encodeURIComponent(given.get('id'))}`,
  type: recipientRequests.type,
  attributes,
})

export const privacyPlaces = listPlaces({
  path: '/privacy',
  title: 'Privacy',
  about: 'Answer requests from people who want their data exported or erased.',
  above: person,
  list,
  actions: {
    fulfil: {
      label: 'Answer',
      ask: (_, given) => answered(given, { state: 'done' }),
      said: 'The export or erasure has started. The list below shows when it is finished.',
    },
    decline: {
      label: 'Decline',
      ask: (_, given) => answered(given, { state: 'declined', reason: given.get('reason') }),
      said: 'The recipient receives your reason by email.',
    },
    forget: {
      label: 'Erase data',
      ask: (_, given) => ({ method: 'DELETE', path: pathOf(given.get('address'), 'forget') }),
      said: (_, given) => `Erasing the data of ${given.get('address')}. The list below shows when it is finished.`,
    },
    export: {
      label: 'Export data',
      ask: (_, given) => ({ method: 'GET', path: pathOf(given.get('address'), 'data') }),
      said: (_, given) => `Exporting the data of ${given.get('address')}. You receive the download link by email.`,
    },
  },
})
