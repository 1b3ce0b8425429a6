// Audiences: lists of subscribers, and the state of each contact.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { button, field, form } from '../webui/forms.ts'
import {
  counted,
  badge,
  count,
  figures,
  pageOf,
  pager,
  search,
  table,
  tabs,
  time,
  type Html,
} from '../webui/widgets.ts'
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

const ADD = html`<a class="button" href="/audiences/new">New audience</a>`

async function showAll(visit: Visit): Promise<Response> {
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
  const mayAdd = !visit.reading && options.length > 0
  const noneYet = html`<p>No audience yet. Create one, then import your contacts.</p>
    ${mayAdd ? ADD : visit.reading ? '' : html`<a class="button" href="/domains/new">Add a domain first</a>`}`
  return page(visit, {
    title: 'Audiences',
    about: 'Lists of people who asked for your news. A campaign goes to one audience.',
    actions: mayAdd ? ADD : '',
    done: done(visit),
    body: html`${table('Audiences', ['Name', ...figures('Contacts'), 'Sends from', 'About'], rows, noneYet)}
    ${pager(visit, answer)}`,
  })
}

/** The form for a new audience, empty or as it was refused. */
async function showNew(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const options = await visit.names('/domains')
  const fault = faultIn(errors, LABELS)
  return page(visit, {
    title: 'New audience',
    about: 'After it is made, you import your contacts.',
    crumbs: [['/audiences', 'Audiences']],
    errors,
    labels: LABELS,
    body: form(
      visit,
      'add',
      html`${field({ name: 'name', label: LABELS.name, required: true, value: typed?.get('name') ?? '', error: fault('name') })}
        ${field({ name: 'domain', label: LABELS.domain, options, required: true, value: typed?.get('domain') ?? '' })}
        <button>Create audience</button>`,
      { to: '/audiences' },
    ),
  })
}

const fresh: Place = { path: '/audiences/new', changes: true, show: (visit) => showNew(visit) }

const list: Place = {
  path: '/audiences',
  show: (visit) => showAll(visit),
  async act(visit, given) {
    const answer = await visit.ask('POST', '/audiences', {
      type: 'audiences',
      attributes: { name: given.get('name') },
      relationships: { domain: { data: { type: 'domains', id: given.get('domain') } } },
    })
    return answer.one ? lead(visit, `/audiences/${answer.one.id}`, 'added') : showNew(visit, answer.errors, given)
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

async function showOne(visit: Visit, { errors = [], extra = '' }: Showing = {}): Promise<Response> {
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
    crumbs: [['/audiences', 'Audiences']],
    actions: html`<a class="button plain" href="/audiences/${id}/export.csv">Export</a> ${
        visit.reading
          ? ''
          : html`<a class="button plain" href="/audiences/${id}/add">Add or import</a>
              <a class="button" href="/campaigns/new?audience=${id}">Write to them</a>`
      }`,
    errors: [...errors, ...answer.errors],
    labels: LABELS,
    done: done(visit),
    body: html`${extra} ${search(visit, 'Search an address or a name', '', status === '' ? {} : { status })}
      ${tabs(
        'Status',
        ['', ...STATUSES].map((each) => ({
          to: `/audiences/${id}${each === '' ? '' : `?status=${each}`}`,
          name: each === '' ? 'all' : each,
          here: each === status,
        })),
      )}
      ${table(
        'Contacts',
        ['Address', 'Name', { title: 'Status', kind: 'status' }, { title: 'Since', kind: 'time' }],
        answer.many.map((contact) => [
          html`<a href="/audiences/${id}/contacts/${contact.id}">${text(contact, 'email')}</a>`,
          text(contact, 'name'),
          badge(text(contact, 'status')),
          time(contact.attributes.created_at),
        ]),
        q === '' && status === '' ? 'Nobody yet. Import a file below, or add somebody.' : 'Nobody fits.',
      )}
      ${pager(visit, answer)}
      <p class="apart">
        ${button(visit, 'remove', 'Remove the audience', { danger: true, confirm: removal(open.many) })}
      </p>`,
  })
}

/** The forms that bring contacts: one by hand, or a file; empty, or as they were refused. */
async function showAdditions(visit: Visit, { errors = [], extra = '', typed }: Showing = {}): Promise<Response> {
  const id = visit.context.req.param('id')!
  const { one } = found(await visit.get(audiences, `/audiences/${id}`))
  return page(visit, {
    title: 'Add or import contacts',
    crumbs: [
      ['/audiences', 'Audiences'],
      [`/audiences/${id}`, text(one, 'name')],
    ],
    errors,
    labels: LABELS,
    body: html`${extra} ${changes(visit, `/audiences/${id}`, typed)}`,
  })
}

const additions: Place = { path: '/audiences/:id/add', changes: true, show: (visit) => showAdditions(visit) }

const changes = (visit: Visit, to: string, typed: Form | undefined): Html =>
  html`<h2>Import a file</h2>
    ${form(
      visit,
      'preview',
      html`${field({ name: 'file', label: 'File', type: 'file', accept: '.csv,.json,text/csv,application/json', required: true, hint: 'CSV or JSON with a column "email"; "name" and all others become fields. A column of status says who has left: they are not subscribed.' })}
        ${programField(Object.keys(PRESETS))} <button>Look at it first</button>`,
      { multipart: true, to },
    )}
    <h2>Add one contact</h2>
    ${form(visit, 'add', html`${field({ name: 'email', label: 'Address', type: 'email', required: true, value: typed?.get('email') ?? '' })} ${field({ name: 'name', label: 'Name', value: typed?.get('name') ?? '' })}<button>Add</button>`, { to })}`

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
        return showAdditions(visit, { errors: [{ code: 'invalid', field: undefined, detail: reading }] })
      if (given.action === 'preview') return showAdditions(visit, { extra: preview(visit, reading) })
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
      : showAdditions(visit, { errors: answer.errors, typed: given })
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

export const audiencePlaces = [fresh, additions, download, audience, list]
