// Audiences: lists of subscribers, and the state of each contact.
import { html } from 'hono/html'
import { DAY } from '../base/clock.ts'
import { lineChart } from '../views/html/chart.ts'
import { counted, time, type Html, count, facts, figures, pageOf, pager, table, tile } from '../views/html/widgets.ts'
import { audiences, contacts } from '../campaigns/api-audiences.ts'
import { audienceStatistics } from '../campaigns/api-figures.ts'
import { campaigns } from '../campaigns/api.ts'
import { contactColumns } from '../campaigns/page-segments.ts'
import { found, type Place, done } from '../views/html/place.ts'
import { number, objects, record, text, type Thing, type Visit, relatedId } from '../views/html/visit.ts'
import { chosenIn, csv } from '../views/html/csv.ts'
import { formPlace, type FormView } from '../views/form.ts'
import type { Bulk } from '../views/bulk.ts'
import { listOf, type ListView } from '../views/list.ts'
import { listPlaces, onePlace, type ShownOne } from '../views/pages.ts'
import { relatedName } from '../views/table.ts'
import { importPlace } from './page-import.ts'
import { refuse } from '../base/errors.ts'
import { guard, page } from '../views/html/frame.ts'
import { listImports } from './api-contacts.ts'

/** The states of contacts, with the statistics that count them. */
const BY_STATUS = [
  { status: 'subscribed', name: 'Subscribed', column: 'subscribed_count' },
  { status: 'unsubscribed', name: 'Unsubscribed', column: 'unsubscribed_count' },
  { status: 'bounced', name: 'Bounced', column: 'bounced_count' },
  { status: 'complained', name: 'Complained', column: 'complained_count' },
  { status: 'pending', name: 'Pending', column: 'pending_count' },
] as const

/** The field of the name that subscribers see. */
const TITLE = {
  label: 'Public name',
  hint: 'Subscribers see it, for example on the unsubscribe page. Defaults to your sender name or domain.',
}

const list = listPlaces({
  path: '/audiences',
  title: 'Audiences',
  about: 'Lists of subscribers. Each campaign is sent to one audience.',
  add: { label: 'New audience', domain: true },
  form: {
    title: 'New audience',
    about: 'After that, import your contacts or add them one by one.',
    of: audiences,
    fields: {
      name: { label: 'Name', hint: 'For your reference. Subscribers do not see it.' },
      title: TITLE,
      domain: { label: 'Sending domain' },
    },
    button: 'Create audience',
    done: (visit, one) => visit.say(`/audiences/${one.id}`, `Created “${text(one, 'name')}”. Now import its contacts.`),
  },
  list: (): ListView<typeof audienceStatistics> => ({
    of: audienceStatistics,
    from: '/audience-statistics?include=domain',
    caption: 'Audiences',
    columns: (answer) => [
      { title: 'Name', of: 'name', to: ({ id }) => `/audiences/${id}` },
      { title: 'Domain', of: relatedName(answer, 'domain'), width: 20 },
      ...BY_STATUS.map(({ column, name }) => ({ title: name, kind: 'figure' as const, of: column })),
      { title: 'Created', kind: 'time', of: 'created_at' },
    ],
    empty: 'No audiences yet. Create one, then import your contacts.',
  }),
})

const campaignsTo = (id: string): string => `/campaigns?filter%5Baudience%5D=${id}`

/** The consequence of deleting an audience, with the campaigns that need it. */
async function removal(visit: Visit, id: string): Promise<string> {
  const open = `${campaignsTo(id)}&filter%5Bstatus%5D=draft,scheduled,sending,paused&page%5Bsize%5D=100`
  const names = (await visit.get(campaigns, open)).many.map(
    (each) => `"${text(each, 'name')}" (${text(each, 'status')})`,
  )
  const end =
    names.length === 0 ? '' : ` These campaigns can then no longer be sent and will fail: ${names.join(', ')}.`
  return `Deletes the audience and all its contacts.${end}`
}

/** The minimum number of days for a chart. */
const FEWEST = 5

/** How the number of subscribers has grown. */
function growth(visit: Visit, figuresOf: Thing<typeof audienceStatistics>): Html | '' {
  const points = objects(figuresOf, 'growth').map(({ at, subscribed }) => [Date.parse(at), subscribed] as const)
  if (points.length < FEWEST) return ''
  // Days are those of UTC, as the numbers are kept.
  const place = { ...visit.place, zone: 'UTC' }
  return lineChart({ title: 'Subscribers per day (UTC)', unit: 'subscribers', points, span: DAY, days: true, place })
}

/** The last campaign to the audience, in a sentence. */
function lastCampaign([last]: readonly Thing<typeof campaigns>[]): Html {
  if (!last) return html`No campaigns to this audience yet.`
  const when = last.attributes.started_at ?? last.attributes.created_at
  return html`Last campaign: <a href="/campaigns/${last.id}">${text(last, 'name')}</a>, ${text(last, 'status')},
    ${time(when)}.`
}

const bulkOf = ({ id }: { id: string }): Bulk<typeof contacts> => ({
  of: contacts,
  named: (contact) => text(contact, 'email'),
  noun: 'contact',
  list: `/audiences/${id}/contacts`,
  file: `/audiences/${id}/export.csv`,
  actions: {
    unsubscribe: {
      label: 'Unsubscribe',
      said: 'Unsubscribed',
      confirm: 'They no longer receive campaigns of this domain.',
      ask: { attributes: { status: 'unsubscribed' } },
    },
    remove: {
      label: 'Remove',
      said: 'Removed',
      danger: true,
      confirm: 'This removes the contacts from this audience only. To erase all data of a person, use Privacy.',
    },
  },
})

const contactsOf = (visit: Visit, one: Thing<typeof audienceStatistics>): ListView<typeof contacts> => ({
  of: contacts,
  from: `/audiences/${one.id}/contacts`,
  caption: 'Contacts',
  bulk: bulkOf(one),
  search: 'Search addresses and names',
  tabs: {
    label: 'Status',
    name: 'status',
    options: [
      { value: '', name: 'All', count: number(one, 'contacts_count') },
      ...BY_STATUS.map(({ column, name, status }) => ({ value: status, name, count: number(one, column) })),
    ],
  },
  columns: contactColumns(one.id),
  empty: html`<p>No contacts yet. Import a file or add a contact.</p>
    ${visit.reading ? '' : html`<a class="button" href="/audiences/${one.id}/import">Import contacts</a>`}`,
  noMatch: 'No contacts match.',
})

const head = ({ here, visit }: ShownOne<typeof audienceStatistics>): Html =>
  html`<a class="button plain" href="${here}/export.csv">Export</a>
    <a class="button plain" href="${here}/segments">Segments</a>
    <a class="button plain" href="${here}/imports">Import history</a>
    <a class="button plain" href="${here}/consents">Consents</a>
    ${
      visit.reading
        ? ''
        : html`<a class="button plain" href="${here}/add">Add contact</a>
            <a class="button plain" href="${here}/import">Import contacts</a>
            <a class="button" href="/campaigns/new?audience=${here.slice('/audiences/'.length)}">New campaign</a>`
    }`

async function body({ form, one, visit }: ShownOne<typeof audienceStatistics>): Promise<Html> {
  const last = await visit.get(campaigns, `${campaignsTo(one.id)}&sort=-created_at&page%5Bsize%5D=1`)
  const { body: list } = await listOf(visit, contactsOf(visit, one))
  const names = await form('rename')
  return html`<p class="soft">${lastCampaign(last.many)}</p>
    ${growth(visit, one)} ${list} ${names === '' ? '' : html`<h2>Names</h2>`} ${names}`
}

/** The form that adds a contact to an audience. */
const newContact = (id: string, name: string): FormView<typeof contacts> => ({
  title: 'Add contact',
  about: 'Add only people who agreed to receive your email.',
  crumbs: [
    ['/audiences', 'Audiences'],
    [`/audiences/${id}`, name],
  ],
  of: contacts,
  path: `/audiences/${id}/contacts`,
  fields: { email: { label: 'Email address', type: 'email' }, name: { label: 'Name' } },
  button: 'Add contact',
  done: (visit, one) => visit.say(`/audiences/${id}`, `Added ${text(one, 'email')}.`),
})

const addition = formPlace('/audiences/:id/add', async (visit) => {
  const { one } = found(await visit.get(audiences, `/audiences/${visit.context.req.param('id')}`))
  return newContact(one.id, text(one, 'name'))
})

const audience = onePlace({
  path: '/audiences/:id',
  of: audienceStatistics,
  list: ['/audiences', 'Audiences'],
  title: 'name',
  api: '/audiences/:id',
  bulk: bulkOf,
  head,
  body,
  actions: async (visit, one) => ({
    rename: {
      label: 'Save names',
      fields: {
        name: { label: 'Name', value: text(one, 'name'), required: true },
        title: { ...TITLE, value: text(one, 'title') },
      },
      ask: (_, given) => ({
        method: 'PATCH',
        type: 'audiences',
        attributes: { name: given.get('name'), title: given.get('title').trim() || null },
      }),
      said: 'Saved.',
    },
    remove: {
      label: 'Delete audience',
      confirm: await removal(visit, one.id),
      danger: true,
      deletes: true,
      said: `Deleted “${text(one, 'name')}” and its ${counted(number(one, 'contacts_count'), 'contact')}.`,
    },
  }),
})

const download: Place = {
  path: '/audiences/:id/export.csv',
  async show(visit) {
    const id = visit.context.req.param('id')!
    const segment = visit.query('segment')
    found(await visit.get(audiences, `/audiences/${id}`))
    return csv(visit, 'contacts.csv', {
      of: contacts,
      path: `/audiences/${id}/contacts?${segment === '' ? '' : `filter%5Bsegment%5D=${encodeURIComponent(segment)}`}${chosenIn(visit)}`,
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

// The import history of an audience: the results of each import, and its rejected rows as a file.

type PastImportShown = Thing<typeof listImports>

const fileOf = (past: PastImportShown): string | Html => text(past, 'file') || html`<span class="soft">no file</span>`

const CRUMBS = (id: string, name: string) =>
  [
    ['/audiences', 'Audiences'],
    [`/audiences/${id}`, name],
  ] as const

const whoOf = (past: PastImportShown): string => text(past, 'created_by') || 'unknown'

const historyPlace: Place = {
  path: '/audiences/:id/imports',
  async show(visit) {
    const { id } = visit.context.req.param() as { id: string }
    const { one } = found(await visit.get(audiences, `/audiences/${id}`))
    const answer = await visit.get(listImports, `/audiences/${id}/list-imports?${pageOf(visit)}`)
    return page(visit, {
      title: 'Import history',
      about: 'Every imported list and its results.',
      crumbs: CRUMBS(id, text(one, 'name')),
      actions: visit.reading ? '' : html`<a class="button" href="/audiences/${id}/import">Import contacts</a>`,
      errors: answer.errors,
      body: html`${table(
        'Import history',
        [
          'File',
          { title: 'Date', kind: 'time' },
          { title: 'By', width: 20 },
          ...figures('New', 'Updated', 'Skipped', 'Rejected'),
        ],
        answer.many.map((past) => [
          html`<a href="/audiences/${id}/imports/${past.id}">${fileOf(past)}</a>`,
          time(past.attributes.created_at),
          whoOf(past),
          ...(['created', 'updated', 'skipped', 'rejected_count'] as const).map((name) => count(number(past, name))),
        ]),
        'No imports yet.',
      )}
      ${pager(visit, answer)}`,
    })
  },
}

/** The import in the path. Throws 404 if it belongs to another audience. */
async function pastOf(visit: Visit): Promise<PastImportShown> {
  const { id, import: name } = visit.context.req.param() as { id: string; import: string }
  const { one } = found(await visit.get(listImports, `/list-imports/${name}`))
  if (relatedId(one, 'audience') !== id) throw refuse('not_found', 'Page not found.')
  return one
}

const importPage: Place = {
  path: '/audiences/:id/imports/:import',
  async show(visit) {
    const { id } = visit.context.req.param() as { id: string }
    const { one } = found(await visit.get(audiences, `/audiences/${id}`))
    const past = await pastOf(visit)
    const refused = number(past, 'rejected_count')
    const tiles: readonly (readonly [label: string, sum: number, note?: string])[] = [
      ['New', number(past, 'created')],
      ['Updated', number(past, 'updated')],
      ['Kept as unsubscribed', number(past, 'unsubscribed')],
      ['Suppressed', number(past, 'suppressed'), 'blocked, bounced or complained'],
      ['Skipped', number(past, 'skipped') - refused, 'existing, duplicate or unconfirmed'],
      ['Rejected', refused],
    ]
    const shown = tiles.filter(([label, sum]) => sum > 0 || label === 'New' || label === 'Updated')
    const until = past.attributes.rejected_until
    return page(visit, {
      title: text(past, 'file') === '' ? 'Import' : `Import of ${text(past, 'file')}`,
      crumbs: [...CRUMBS(id, text(one, 'name')), [`/audiences/${id}/imports`, 'Import history']],
      actions: html`${
          until === null
            ? ''
            : html`<a class="button plain" href="/audiences/${id}/imports/${past.id}/rejected.csv">Rejected rows</a> `
        }<a class="button" href="/audiences/${id}">View audience</a>`,
      done: done(visit),
      body: html`<div class="tiles">
          ${shown.map(([label, sum, note]) => tile(label, count(sum), note === undefined ? {} : { note: html`<span class="soft">${note}</span>` }))}
        </div>
        ${facts([
          ['Date', time(past.attributes.created_at)],
          ['By', whoOf(past)],
          ...(until === null ? [] : ([['Rejected rows', html`available until ${time(until)}`]] as const)),
        ])}
        ${
          refused > 0 && until !== null
            ? html`<p class="soft">
                ${counted(refused, 'row')} ${refused === 1 ? 'was' : 'were'} rejected. Download the rejected rows to see
                the reasons, correct them and import the file again.
              </p>`
            : ''
        }`,
    })
  },
}

const refusedFile: Place = {
  path: '/audiences/:id/imports/:import/rejected.csv',
  async show(visit) {
    const past = await pastOf(visit)
    const file = await visit.download(`/list-imports/${past.id}/rejected`)
    if (file.status !== 200) throw refuse('not_found', 'The rejected rows of this import are no longer available.')
    guard(visit.context)
    visit.context.header('Content-Type', 'text/csv; charset=utf-8')
    visit.context.header('Content-Disposition', 'attachment; filename="rejected-rows.csv"')
    return visit.context.body(await file.arrayBuffer())
  },
}

export const audiencePlaces = [
  ...list,
  addition,
  importPlace,
  refusedFile,
  importPage,
  historyPlace,
  download,
  audience,
]
