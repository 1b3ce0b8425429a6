// The proof of consent on pages: that of an audience, that of a contact, and one consent as a page for printing.
import { html } from 'hono/html'
import { refuse } from '../base/errors.ts'
import { page } from '../views/html/frame.ts'
import { found, type Place } from '../views/html/place.ts'
import { relatedId, text, type Thing, type Visit } from '../views/html/visit.ts'
import { badge, facts, search, time, type Cell, type Html } from '../views/html/widgets.ts'
import { listOf, type ListView } from '../views/list.ts'
import { tableOf, type ViewColumn } from '../views/table.ts'
import { audiences } from './api-audiences.ts'
import { consents } from './api-consents.ts'

type ConsentThing = Thing<typeof consents>

const STATES: Readonly<Record<string, string>> = {
  requested: 'not confirmed yet',
  confirmed: 'confirmed by email',
  single: 'without a confirmation',
  asserted: 'added by you',
}
const SOURCES: Readonly<Record<string, string>> = {
  form: 'form',
  api: 'API',
  console: 'console',
  cli: 'command line',
  import: 'import',
  page: 'own page of the subscriber',
  before: 'before consents were stored',
}

const stateOf = (consent: ConsentThing): string => {
  const state = text(consent, 'state')
  return STATES[state] ?? state
}

/** The source, with the form. Every page that names a form without a confirmation warns of it (AU1). */
function sourceOf(consent: ConsentThing): Cell {
  const source = text(consent, 'source')
  const name = SOURCES[source] ?? source
  const form = text(consent, 'form_id')
  if (form === '') return name
  const warning = text(consent, 'form_opt_in') === 'single' ? badge('no confirmation') : ''
  return html`${name} <a href="/forms/${form}">${text(consent, 'form_name')}</a> ${warning}`
}

const pathOf = (consent: ConsentThing): string => {
  const [audience, contact] = [relatedId(consent, 'audience') ?? '', relatedId(consent, 'contact')]
  const whose = contact === undefined ? '' : `/contacts/${contact}`
  return `/audiences/${audience}${whose}/consents/${consent.id}`
}

const when = (consent: ConsentThing): string => text(consent, 'confirmed_at') || text(consent, 'created_at')

const DATE: ViewColumn<typeof consents> = { title: 'Date', kind: 'time', of: (each) => time(when(each)) }
const COLUMNS: readonly ViewColumn<typeof consents>[] = [
  { title: 'State', of: stateOf },
  { title: 'Source', of: sourceOf },
  { title: 'Ended', kind: 'time', of: 'ended_at' },
]

/** The consents of a contact, for its page. */
export async function consentsOfContact(visit: Visit, contactId: string): Promise<Html> {
  const { many } = await visit.get(consents, `/contacts/${contactId}/consents?page%5Bsize%5D=100`)
  return html`<h2>Consent</h2>
    ${tableOf('Consent', [{ ...DATE, to: pathOf }, ...COLUMNS], many, 'No consent is stored.')}`
}

const TABS = [
  { value: '', name: 'All' },
  { value: 'confirmed', name: 'Confirmed' },
  { value: 'requested', name: 'Not confirmed yet' },
  { value: 'withdrawn', name: 'Withdrawn' },
]

const consentsIn = (audience: string, email: string): ListView<typeof consents> => ({
  of: consents,
  from: `/audiences/${audience}/consents?include=contact${email === '' ? '' : `&filter%5Bemail%5D=${encodeURIComponent(email)}`}`,
  caption: 'Consents',
  tabs: { label: 'Consents by state', name: 'state', options: TABS },
  columns: ({ included }) => {
    const addresses = new Map(included.map((each) => [each.id, String(each.attributes['email'])]))
    return [
      DATE,
      {
        title: 'Contact',
        width: 30,
        of: (each) => addresses.get(relatedId(each, 'contact') ?? '') ?? 'deleted contact',
        to: pathOf,
      },
      ...COLUMNS,
    ]
  },
  empty: 'No consents.',
  noMatch: 'No consents with this state.',
})

const audienceConsents: Place = {
  path: '/audiences/:audience/consents',
  async show(visit) {
    const { audience } = visit.context.req.param() as { audience: string }
    const { one } = found(await visit.get(audiences, `/audiences/${audience}`))
    const { body } = await listOf(visit, consentsIn(audience, visit.query('q').trim()))
    return page(visit, {
      title: 'Consents',
      about: 'Why each contact is in the audience. Consents of deleted contacts are found by the whole address.',
      crumbs: [
        ['/audiences', 'Audiences'],
        [`/audiences/${audience}`, text(one, 'name')],
      ],
      body: html`${search(visit, 'Email address')} ${body}`,
    })
  },
}

/** A time for a printed page, which does not know the zone of its reader. */
const inUtc = (iso: string): string => iso.replace('T', ' ').replace(/\.\d+Z$/, ' UTC')

/** What is stored about a consent. Values that are unknown are left out. */
function factsOf(consent: ConsentThing, email: string | undefined): Html {
  const of = (name: keyof ConsentThing['attributes']): string => text(consent, name)
  const code = (value: string): Cell => (value === '' ? '' : html`<code>${value}</code>`)
  const rows: [name: string, value: Cell][] = [
    ['Address', email ?? 'The contact was deleted. Only a hash of the address is stored.'],
    ['State', stateOf(consent)],
    ['Source', sourceOf(consent)],
    ['Form version', of('form_version')],
    ['Signed up', inUtc(of('requested_at'))],
    ['Confirmed', inUtc(of('confirmed_at'))],
    ['Recorded', inUtc(of('created_at'))],
    ['Ended', inUtc(of('ended_at'))],
    ['Subscribed again', inUtc(of('restored_at'))],
    ['Added by', of('person')],
    ['Evidence', of('evidence')],
    ['Page', of('page')],
    ['Website', of('origin')],
    ['Confirmation email', code(of('message_id'))],
    ['Delivery of this email', of('email_id') && html`<a href="/mail/${of('email_id')}">${of('email_status')}</a>`],
    ['Client that signed up', code(of('request_client'))],
    ['Client that confirmed', code(of('confirm_client'))],
    ['Language', of('language')],
    ['SHA-256 of the text', code(of('text_sha256'))],
    ['Id', code(consent.id)],
  ]
  return facts(rows.filter(([, value]) => value !== ''))
}

/** The page of one consent, in UTC, for printing. */
async function showConsent(visit: Visit): Promise<Response> {
  const { audience, contact, id } = visit.context.req.param() as { audience: string; contact?: string; id: string }
  const { included, one } = found(await visit.get(consents, `/consents/${id}?include=audience,contact`))
  if (relatedId(one, 'audience') !== audience || relatedId(one, 'contact') !== contact)
    throw refuse('not_found', 'Page not found.')
  const named = (type: string): string | undefined => {
    const { attributes } = included.find((each) => each.type === type) ?? {}
    const value = attributes?.[type === 'contacts' ? 'email' : 'name']
    return typeof value === 'string' ? value : undefined
  }
  const [email, list] = [named('contacts'), named('audiences') ?? 'Audience']
  return page(visit, {
    title: 'Proof of consent',
    about: `Why ${email ?? 'a deleted contact'} ${email === undefined ? 'was' : 'is'} in the audience ${list}. Print this page to hand it over.`,
    crumbs: [
      ['/audiences', 'Audiences'],
      [`/audiences/${audience}`, list],
      contact === undefined
        ? [`/audiences/${audience}/consents`, 'Consents']
        : [`/audiences/${audience}/contacts/${contact}`, email ?? 'Contact'],
    ],
    body: html`${factsOf(one, email)}
      <h2>Declaration</h2>
      ${text(one, 'text') === '' ? html`<p>No text is stored.</p>` : html`<blockquote class="lines" ${text(one, 'language') === '' ? '' : html`lang="${text(one, 'language')}"`}>${text(one, 'text')}</blockquote>`}`,
  })
}

export const consentPlaces: readonly Place[] = [
  audienceConsents,
  { path: '/audiences/:audience/consents/:id', show: showConsent },
  { path: '/audiences/:audience/contacts/:contact/consents/:id', show: showConsent },
]
