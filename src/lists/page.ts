// Audiences: lists of subscribers, and the state of each contact.
import { html } from 'hono/html'
import { DAY } from '../base/clock.ts'
import { page } from '../webui/frame.ts'
import { button, dangers, fieldMaker, form } from '../webui/forms.ts'
import { lineChart } from '../webui/chart.ts'
import {
  badge,
  count,
  counted,
  figures,
  pageOf,
  pager,
  search,
  table,
  tabs,
  time,
  type Html,
} from '../webui/widgets.ts'
import { audiences, contacts } from '../campaigns/api-audiences.ts'
import { audienceFigures } from '../campaigns/api-figures.ts'
import { campaigns } from '../campaigns/api.ts'
import { statusWord } from '../campaigns/page-words.ts'
import { done, found, type Form, type Place } from '../webui/place.ts'
import {
  namesOf,
  number,
  objects,
  record,
  relatedId,
  text,
  thingOf,
  type Answer,
  type Thing,
  type Visit,
} from '../webui/visit.ts'
import { csv } from '../webui/csv.ts'
import { valuesOf } from '../schema/tables.ts'
import { historyPlaces } from './page-history.ts'
import { importPlace } from './page-import.ts'

const LABELS = { name: 'Name', domain: 'Sending domain', email: 'Address' } as const

/** The states of contacts, with the figures that count them. */
const BY_STATUS = [
  { status: 'subscribed', name: 'Subscribed', column: 'subscribed_count' },
  { status: 'unsubscribed', name: 'Left', column: 'unsubscribed_count' },
  { status: 'bounced', name: 'Bounced', column: 'bounced_count' },
  { status: 'complained', name: 'Complained', column: 'complained_count' },
] as const

const ADD = html`<a class="button" href="/audiences/new">New audience</a>`

async function showAll(visit: Visit): Promise<Response> {
  const [answer, options] = await Promise.all([
    visit.get(audienceFigures, `/audience-figures?include=domain&${pageOf(visit)}`),
    visit.names('/domains'),
  ])
  const names = namesOf(answer.included)
  const rows = answer.many.map((audience) => [
    html`<a href="/audiences/${audience.id}">${text(audience, 'name')}</a>`,
    names.get(relatedId(audience, 'domain') ?? '') ?? '',
    ...BY_STATUS.map(({ column }) => count(number(audience, column))),
    time(audience.attributes.created_at),
  ])
  const mayAdd = !visit.reading && options.length > 0
  const noneYet = html`<p>No audience yet. Create one, then import your contacts.</p>
    ${mayAdd ? ADD : visit.reading ? '' : html`<a class="button" href="/domains/new">Add a domain first</a>`}`
  return page(visit, {
    title: 'Audiences',
    about: 'Lists of people who asked for your news. A campaign goes to one audience.',
    actions: mayAdd && rows.length > 0 ? ADD : '',
    done: done(visit),
    body: html`${table(
      'Audiences',
      [
        'Name',
        { title: 'Sends from', width: 20 },
        ...figures(...BY_STATUS.map(({ name }) => name)),
        { title: 'Since', kind: 'time' },
      ],
      rows,
      noneYet,
    )}
    ${pager(visit, answer)}`,
  })
}

/** The form for a new audience, empty or as it was refused. */
async function showNew(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const options = await visit.names('/domains')
  const entry = fieldMaker(LABELS, errors, typed)
  return page(visit, {
    title: 'New audience',
    about: 'Next you import your contacts, or add them one by one.',
    crumbs: [['/audiences', 'Audiences']],
    errors,
    labels: LABELS,
    body: form(
      visit,
      'add',
      html`${entry('name', { required: true })} ${entry('domain', { options, required: true })}
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
    return answer.one
      ? visit.say(`/audiences/${answer.one.id}`, `“${given.get('name')}” is there. Now import its contacts.`)
      : showNew(visit, answer.errors, given)
  },
}

/** What removing an audience does, as a question; `waiting` are the campaigns that need it. */
function removal(waiting: readonly Thing<typeof campaigns>[]): string {
  const names = waiting.map((each) => `"${text(each, 'name')}" (${text(each, 'status')})`)
  const end = names.length === 0 ? '' : ` These campaigns can then not be sent, and end as failed: ${names.join(', ')}.`
  return `The audience and all its contacts are removed.${end}`
}

const STATUSES = valuesOf('contacts', 'status')

/** The days from which on a line says something. */
const FEWEST = 5

/** How the number of subscribers has grown. */
function growth(figuresOf: Thing<typeof audienceFigures>): Html | '' {
  const points = objects(figuresOf, 'growth').map(({ at, subscribed }) => [Date.parse(at), subscribed] as const)
  if (points.length < FEWEST) return ''
  // Days are those of UTC, as the numbers are kept.
  return lineChart({ title: 'Subscribed', unit: 'subscribed', points, span: DAY, step: DAY, zone: 'UTC' })
}

/** The last campaign to the audience, in a sentence. */
function lastCampaign([last]: readonly Thing<typeof campaigns>[]): Html {
  if (!last) return html`No campaign went to them yet.`
  const when = last.attributes.started_at ?? last.attributes.created_at
  return html`Last campaign: <a href="/campaigns/${last.id}">${text(last, 'name')}</a>, ${text(last, 'status')},
    ${time(when)}.`
}

const nothingYet = (id: string, reading: boolean): Html =>
  html`<p>Nobody yet. Import a file, or add somebody.</p>
    ${reading ? '' : html`<a class="button" href="/audiences/${id}/import">Import contacts</a>`}`

const removing = (visit: Visit, consequence: string): Html | '' =>
  dangers(visit, [
    [consequence, button(visit, 'remove', 'Remove the audience', { danger: true, confirm: consequence })],
  ])

async function showOne(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const id = visit.context.req.param('id')!
  const { one } = found(await visit.get(audienceFigures, `/audience-figures/${id}`))
  const q = visit.query('q')
  const status = STATUSES.find((each) => each === visit.query('status')) ?? ''
  const of = `/campaigns?filter%5Baudience%5D=${id}`
  const [open, last, answer] = await Promise.all([
    visit.get(campaigns, `${of}&filter%5Bstatus%5D=draft,scheduled,sending,paused&page%5Bsize%5D=100`),
    visit.get(campaigns, `${of}&sort=-created_at&page%5Bsize%5D=1`),
    visit.get(
      contacts,
      `/audiences/${id}/contacts?${pageOf(visit)}${q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`}${status === '' ? '' : `&filter%5Bstatus%5D=${encodeURIComponent(status)}`}`,
    ),
  ])
  const all = [{ status: '', name: 'All', column: 'contacts_count' } as const, ...BY_STATUS]
  return page(visit, {
    title: text(one, 'name'),
    crumbs: [['/audiences', 'Audiences']],
    actions: html`<a class="button plain" href="/audiences/${id}/export.csv">Export</a>
      <a class="button plain" href="/audiences/${id}/imports">History of imports</a>
      ${
        visit.reading
          ? ''
          : html`<a class="button plain" href="/audiences/${id}/add">Add contact</a>
              <a class="button plain" href="/audiences/${id}/import">Import contacts</a>
              <a class="button" href="/campaigns/new?audience=${id}">Write to them</a>`
      }`,
    errors: [...errors, ...answer.errors],
    labels: LABELS,
    done: done(visit),
    body: html`<p class="soft">${lastCampaign(last.many)}</p>
      ${growth(one)}
      ${tabs(
        'Status',
        all.map((each) => ({
          to: `/audiences/${id}${each.status === '' ? '' : `?status=${each.status}`}`,
          name: each.name,
          count: number(one, each.column),
          here: each.status === status,
        })),
      )}
      ${search(visit, 'Search an address or a name', '', status === '' ? {} : { status })}
      ${table(
        'Contacts',
        ['Address', 'Name', { title: 'Status', kind: 'status' }, { title: 'Since', kind: 'time' }],
        answer.many.map((contact) => [
          html`<a href="/audiences/${id}/contacts/${contact.id}">${text(contact, 'email')}</a>`,
          text(contact, 'name'),
          badge(statusWord(text(contact, 'status'))),
          time(contact.attributes.created_at),
        ]),
        q === '' && status === '' ? nothingYet(id, visit.reading) : 'Nobody fits.',
      )}
      ${pager(visit, answer)} ${removing(visit, removal(open.many))}`,
  })
}

/** The form that adds one contact, empty or as it was refused. */
async function showAddition(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const id = visit.context.req.param('id')!
  const { one } = found(await visit.get(audiences, `/audiences/${id}`))
  const entry = fieldMaker(LABELS, errors, typed)
  return page(visit, {
    title: 'Add contact',
    about: 'One person who asked for your news.',
    crumbs: [
      ['/audiences', 'Audiences'],
      [`/audiences/${id}`, text(one, 'name')],
    ],
    errors,
    labels: LABELS,
    body: form(
      visit,
      'add',
      html`${entry('email', { type: 'email', required: true })} ${entry('name')} <button>Add contact</button>`,
      { to: `/audiences/${id}` },
    ),
  })
}

const addition: Place = { path: '/audiences/:id/add', changes: true, show: (visit) => showAddition(visit) }

const audience: Place = {
  path: '/audiences/:id',
  show: (visit) => showOne(visit),
  async act(visit, given) {
    const id = visit.context.req.param('id')!
    if (given.action === 'remove') {
      const { one } = found(await visit.get(audiences, `/audiences/${id}`))
      const gone = await visit.ask('DELETE', `/audiences/${id}`)
      const said = `“${text(one, 'name')}” is removed, with ${counted(number(one, 'contacts_count'), 'contact')}.`
      return gone.status === 204 ? visit.say('/audiences', said) : showOne(visit, gone.errors)
    }
    const answer = await visit.ask('POST', `/audiences/${id}/contacts`, {
      type: 'contacts',
      attributes: { email: given.get('email'), ...(given.get('name') === '' ? {} : { name: given.get('name') }) },
    })
    return answer.one
      ? visit.say(`/audiences/${id}`, `${text(thingOf(contacts, answer.one), 'email')} is added.`)
      : showAddition(visit, answer.errors, given)
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

export const audiencePlaces = [fresh, addition, importPlace, ...historyPlaces, download, audience, list]
