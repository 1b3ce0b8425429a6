// Inboxes: addresses that receive mail, and their messages as a mail program shows them.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { button, field, form } from '../webui/forms.ts'
import { badge, facts, live, looks, octets, pageOf, pager, search, table, time, type Html } from '../webui/widgets.ts'
import { inboundEmails } from './api-emails.ts'
import { inboxes } from './api.ts'
import { done, found, lead, type Form, type Place } from '../webui/place.ts'
import { faultIn, objects, record, text, texts, type Answer, type Visit } from '../webui/visit.ts'

const LABELS = { name: 'Name', address: 'Address' } as const

const ADD = html`<a class="button" href="/inboxes/new">Add inbox</a>`

async function showAll(visit: Visit): Promise<Response> {
  const answer = await visit.get(inboxes, `/inboxes?${pageOf(visit)}`)
  const rows = answer.many.map((inbox) => [
    html`<a href="/inboxes/${inbox.id}">${text(inbox, 'name')}</a>`,
    text(inbox, 'address'),
    time(inbox.attributes.created_at),
  ])
  return page(visit, {
    title: 'Inboxes',
    about: 'Addresses of your domains whose mail is kept and shown here.',
    actions: visit.reading ? '' : ADD,
    done: done(visit),
    body: html`${table(
      'Inboxes',
      ['Name', 'Address', { title: 'Since', kind: 'time' }],
      rows,
      html`<p>No inbox yet. The first one of a domain asks for an MX record.</p>
        ${visit.reading ? '' : ADD}`,
    )}
    ${pager(visit, answer)}`,
  })
}

/** The form for a new inbox, empty or as it was refused. */
function showNew(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Response | Promise<Response> {
  const fault = faultIn(errors, LABELS)
  return page(visit, {
    title: 'Add an inbox',
    crumbs: [['/inboxes', 'Inboxes']],
    errors,
    labels: LABELS,
    body: form(
      visit,
      'add',
      html`${field({ name: 'name', label: LABELS.name, required: true, value: typed?.get('name') ?? '', error: fault('name') })}
        ${field({ name: 'address', label: LABELS.address, type: 'email', required: true, value: typed?.get('address') ?? '', error: fault('address') })}
        <button>Add</button>`,
      { to: '/inboxes' },
    ),
  })
}

const fresh: Place = { path: '/inboxes/new', changes: true, show: (visit) => showNew(visit) }

const list: Place = {
  path: '/inboxes',
  show: (visit) => showAll(visit),
  async act(visit, given) {
    const answer = await visit.ask('POST', '/inboxes', {
      type: 'inboxes',
      attributes: { name: given.get('name'), address: given.get('address') },
    })
    return answer.one ? lead(visit, `/inboxes/${answer.one.id}`, 'added') : showNew(visit, answer.errors, given)
  },
}

async function showInbox(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const id = visit.context.req.param('id')!
  const { one } = found(await visit.get(inboxes, `/inboxes/${id}`))
  const q = visit.query('q')
  const answer = await visit.get(
    inboundEmails,
    `/inboxes/${id}/inbound-emails?${pageOf(visit)}${q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`}`,
  )
  return page(visit, {
    title: text(one, 'name'),
    about: `What came to ${text(one, 'address')}.`,
    crumbs: [['/inboxes', 'Inboxes']],
    errors: [...errors, ...answer.errors],
    done: done(visit),
    body: html`${search(visit, 'Search')}
      ${live(
        visit,
        html`${table(
          'Messages',
          [
            { title: 'Received', kind: 'time' },
            { title: 'From', width: 25 },
            'Subject',
            { title: 'Status', kind: 'status' },
            { title: 'Sender check', width: 20 },
          ],
          answer.many.map((mail) => [
            time(mail.attributes.received_at ?? mail.attributes.created_at),
            text(mail, 'from') || text(mail, 'sender'),
            html`<a href="/inboxes/${id}/mail/${mail.id}">${text(mail, 'subject') || '(no subject)'}</a>`,
            badge(text(mail, 'status')),
            verdicts(record(mail, 'authentication')),
          ]),
          q === '' ? 'Nothing came yet.' : 'Nothing fits.',
        )}
        ${pager(visit, answer)}`,
      )}
      <p class="apart">
        ${button(visit, 'remove', 'Remove the inbox', { danger: true, confirm: 'It receives nothing any more. What it received stays readable.' })}
      </p>`,
  })
}

const inbox: Place = {
  path: '/inboxes/:id',
  show: (visit) => showInbox(visit),
  async act(visit) {
    const gone = await visit.ask('DELETE', `/inboxes/${visit.context.req.param('id')!}`)
    return gone.status === 204 ? lead(visit, '/inboxes', 'removed') : showInbox(visit, gone.errors)
  },
}

const PASSES = new Set(['pass'])

/** The results of SPF, DKIM and DMARC in words. */
function verdicts(given: Record<string, string>): Html {
  const all = Object.entries(given).filter(([, value]) => typeof value === 'string')
  return html`${all.map(
    ([name, value]) => html`<span class="badge ${PASSES.has(value) ? 'good' : ''}">${name} ${value}</span> `,
  )}`
}

const MEANING: Record<string, string> = {
  received: '',
  virus_detected: 'A virus was found in it; its text is not shown.',
  oversized: 'It was larger than this server takes; only its header was kept.',
  parse_rejected: 'It could not be read within the limits; its octets are kept.',
}

const message: Place = {
  path: '/inboxes/:inbox/mail/:id',
  async show(visit) {
    const id = visit.context.req.param('id')!
    const { one } = found(await visit.get(inboundEmails, `/inbound-emails/${id}`))
    const files = objects(one, 'attachments')
    const headers = Object.entries(record(one, 'headers'))
    const meaning = MEANING[text(one, 'status')] ?? ''
    return page(visit, {
      title: text(one, 'subject') || '(no subject)',
      crumbs: [
        ['/inboxes', 'Inboxes'],
        [`/inboxes/${visit.context.req.param('inbox') ?? ''}`, 'Inbox'],
      ],
      body: html`${meaning === '' ? '' : html`<div class="alert">${meaning} ${text(one, 'reason')}</div>`}
        ${facts([
          ['From', text(one, 'from') || text(one, 'sender')],
          ['To', texts(one, 'recipients').join(', ')],
          ['Received', time(one.attributes.received_at ?? one.attributes.created_at)],
          ['Status', badge(text(one, 'status'))],
          ['Sender check', verdicts(record(one, 'authentication'))],
        ])}
        ${
          text(one, 'html') === ''
            ? ''
            : looks(visit, text(one, 'html'), `/inbound/${id}/html`, 'The message as it looks')
        }
        ${
          text(one, 'text') === ''
            ? ''
            : text(one, 'html') === ''
              ? html`<pre tabindex="0">${text(one, 'text')}</pre>`
              : html`<details>
                  <summary>Plain text</summary>
                  <pre tabindex="0">${text(one, 'text')}</pre>
                </details>`
        }
        ${
          files.length === 0
            ? ''
            : html`<h2>Attachments</h2>
                <ul>
                  ${files.map((file) => html`<li><a href="/inbound/${id}/attachments/${file.id}" download>${file.filename ?? 'attachment'}</a> <span class="soft">${file.content_type}, ${octets(file.size)}</span></li>`)}
                </ul>`
        }
        <details>
          <summary>Headers</summary>
          <pre tabindex="0">
${headers.flatMap(([name, value]) => [value].flat().map((each) => `${name}: ${each}\n`)).join('')}</pre>
        </details>
        <p><a href="/inbound/${id}/raw" download>The source, as a file</a></p>`,
    })
  },
}

export const inboxPlaces = [fresh, message, inbox, list]
