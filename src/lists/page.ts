// Audiences: lists of subscribers, and the state of each contact.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { button, field, form } from '../webui/forms.ts'
import { counted, badge, count, pageOf, pager, search, table, time, type Html } from '../webui/widgets.ts'
import { sendContacts, named, preview, programField, readingOf } from './page-import.ts'
import { PRESETS } from './programs.ts'
import { audiences, contacts } from '../campaigns/api-audiences.ts'
import { campaigns } from '../campaigns/api.ts'
import { done, found, lead, type Form, type Place } from '../webui/place.ts'
import {
  faultIn,
  namesOf,
  number,
  record,
  relatedId,
  text,
  type Answer,
  type Thing,
  type Visit,
} from '../webui/visit.ts'
import { csv } from '../webui/csv.ts'
import { valuesOf } from '../schema/tables.ts'

const LABELS = { name: 'Name', domain: 'Sending domain', email: 'Address' } as const

async function showAll(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const [answer, options] = await Promise.all([
    visit.get(audiences, `/audiences?include=domain&${pageOf(visit)}`),
    visit.names('/domains'),
  ])
  const names = namesOf(answer.included)
  const rows = answer.many.map((audience) => [
    html`<a href="/audiences/${audience.id}">${text(audience, 'name')}</a>`,
    count(number(audience, 'contacts_count')),
    names.get(relatedId(audience, 'domain') ?? '') ?? '',
    text(audience, 'description'),
  ])
  const fault = faultIn(errors, LABELS)
  return page(visit, {
    title: 'Audiences',
    about: 'Lists of people who asked for your news. A campaign goes to one audience.',
    errors,
    labels: LABELS,
    done: done(visit),
    body: html`${table('Audiences', ['Name', { title: 'Contacts', figure: true }, 'Sends from', 'About'], rows, 'No audience yet. Make one, then import your contacts.')}
    ${pager(visit, answer)}
    ${
      visit.reading || options.length === 0
        ? ''
        : html`<h2>New audience</h2>
            ${form(
              visit,
              'add',
              html`${field({ name: 'name', label: LABELS.name, required: true, value: typed?.get('name') ?? '', error: fault('name') })}
                ${field({ name: 'domain', label: LABELS.domain, options, required: true, value: typed?.get('domain') ?? '' })}
                <button>Make it</button>`,
            )}`
    }`,
  })
}

const list: Place = {
  path: '/audiences',
  show: (visit) => showAll(visit),
  async act(visit, given) {
    const answer = await visit.ask('POST', '/audiences', {
      type: 'audiences',
      attributes: { name: given.get('name') },
      relationships: { domain: { data: { type: 'domains', id: given.get('domain') } } },
    })
    return answer.one ? lead(visit, `/audiences/${answer.one.id}`, 'added') : showAll(visit, answer.errors, given)
  },
}

/** What removing an audience does, as a question; `waiting` are the campaigns that need it. */
function removal(waiting: readonly Thing<typeof campaigns>[]): string {
  const names = waiting.map((each) => `"${text(each, 'name')}" (${text(each, 'status')})`)
  const end = names.length === 0 ? '' : ` These campaigns can then not be sent, and end as failed: ${names.join(', ')}.`
  return `The audience and all its contacts are removed.${end}`
}

const STATUSES = valuesOf('contacts', 'status')

interface Showing {
  errors?: Answer['errors']
  extra?: Html | ''
  /** A form that was refused. */
  typed?: Form
}

async function showOne(visit: Visit, { errors = [], extra = '', typed }: Showing = {}): Promise<Response> {
  const id = visit.context.req.param('id')!
  const { one } = found(await visit.get(audiences, `/audiences/${id}`))
  const q = visit.query('q')
  const status = STATUSES.find((each) => each === visit.query('status')) ?? ''
  const open = await visit.get(
    campaigns,
    `/campaigns?filter%5Baudience%5D=${id}&filter%5Bstatus%5D=draft,scheduled,sending,paused&page%5Bsize%5D=100`,
  )
  const answer = await visit.get(
    contacts,
    `/audiences/${id}/contacts?${pageOf(visit)}${q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`}${status === '' ? '' : `&filter%5Bstatus%5D=${encodeURIComponent(status)}`}`,
  )
  return page(visit, {
    title: text(one, 'name'),
    about: `${counted(number(one, 'contacts_count'), 'contact')}, those who left included.`,
    errors: [...errors, ...answer.errors],
    labels: LABELS,
    done: done(visit),
    body: html`${extra} ${search(visit, 'Search an address or a name', '', status === '' ? {} : { status })}
      <nav class="tabs" aria-label="Status">
        ${['', ...STATUSES].map(
          (each) =>
            html`<a
              href="/audiences/${id}${each === '' ? '' : `?status=${each}`}"
              ${each === status ? html`aria-current="true"` : ''}
              >${each === '' ? 'all' : each}</a
            >`,
        )}
      </nav>
      ${table(
        'Contacts',
        ['Address', 'Name', 'Status', 'Since'],
        answer.many.map((contact) => [
          html`<a href="/audiences/${id}/contacts/${contact.id}">${text(contact, 'email')}</a>`,
          text(contact, 'name'),
          badge(text(contact, 'status')),
          time(contact.attributes.created_at),
        ]),
        q === '' && status === '' ? 'Nobody yet. Import a file below, or add somebody.' : 'Nobody fits.',
      )}
      ${pager(visit, answer)}
      <p>
        <a href="/audiences/${id}/export.csv">Export as CSV</a> ·
        <a href="/campaigns/new?audience=${id}">Write a campaign to them</a>
      </p>
      ${visit.reading ? '' : changes(visit, open.many, typed)}`,
  })
}

/** The forms that change an audience; `waiting` are the campaigns that need it. */
const changes = (visit: Visit, waiting: readonly Thing<typeof campaigns>[], typed: Form | undefined): Html =>
  html`<h2>Add a contact</h2>
    ${form(visit, 'add', html`${field({ name: 'email', label: 'Address', type: 'email', required: true, value: typed?.get('email') ?? '' })} ${field({ name: 'name', label: 'Name', value: typed?.get('name') ?? '' })}<button>Add</button>`)}
    <h2>Import a CSV file</h2>
    ${form(
      visit,
      'preview',
      html`${field({ name: 'file', label: 'File', type: 'file', accept: '.csv,.json,text/csv,application/json', required: true, hint: 'A column "email"; "name" and all others become fields. A column of status says who has left: they are not subscribed.' })}
        ${programField(Object.keys(PRESETS))} <button>Look at it first</button>`,
      { multipart: true },
    )}
    <p class="apart">${button(visit, 'remove', 'Remove the audience', { danger: true, confirm: removal(waiting) })}</p>`

const audience: Place = {
  path: '/audiences/:id',
  show: (visit) => showOne(visit),
  async act(visit, given) {
    const id = visit.context.req.param('id')!
    if (given.action === 'remove') {
      const gone = await visit.ask('DELETE', `/audiences/${id}`)
      return gone.status === 204 ? lead(visit, '/audiences', 'removed') : showOne(visit, { errors: gone.errors })
    }
    if (given.action === 'preview' || given.action === 'import') {
      const reading = await readingOf(given)
      if (typeof reading === 'string')
        return showOne(visit, { errors: [{ code: 'invalid', field: undefined, detail: reading }] })
      if (given.action === 'preview') return showOne(visit, { extra: preview(visit, reading) })
      const { created, problems, skipped, suppressed, unsubscribed, updated } = await sendContacts(visit, id, reading)
      const sums = [
        `${count(created)} added`,
        ...(updated > 0 ? [`${count(updated)} updated`] : []),
        ...(unsubscribed > 0 ? [`${count(unsubscribed)} kept as unsubscribed`] : []),
        ...(suppressed > 0 ? [`${count(suppressed)} suppressed`] : []),
        `${count(skipped)} skipped (there already, never confirmed, or wrong)`,
      ].join(', ')
      const report = html`<div class="done" role="status">
        <p>${sums}.</p>
        ${problems.length === 0 ? '' : named(problems, 50)}
      </div>`
      return showOne(visit, { extra: report })
    }
    const answer = await visit.ask('POST', `/audiences/${id}/contacts`, {
      type: 'contacts',
      attributes: { email: given.get('email'), ...(given.get('name') === '' ? {} : { name: given.get('name') }) },
    })
    return answer.one
      ? lead(visit, `/audiences/${id}`, 'added')
      : showOne(visit, { errors: answer.errors, typed: given })
  },
}

const download: Place = {
  path: '/audiences/:id/export.csv',
  async show(visit) {
    const id = visit.context.req.param('id')!
    found(await visit.get(audiences, `/audiences/${id}`))
    return csv(visit, 'contacts.csv', {
      of: contacts,
      path: `/audiences/${id}/contacts?`,
      titles: ['email', 'name', 'status', 'fields', 'created_at'],
      row: (each) => [
        text(each, 'email'),
        text(each, 'name'),
        text(each, 'status'),
        JSON.stringify(record(each, 'custom_fields')),
        text(each, 'created_at'),
      ],
    })
  },
}

export const audiencePlaces = [download, audience, list]
