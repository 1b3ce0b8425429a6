// One contact: its data, and each mail to its address.
import { html } from 'hono/html'
import { refuse } from '../base/errors.ts'
import { page } from '../views/html/frame.ts'
import { button, dangers, field, form } from '../views/html/forms.ts'
import { badge, facts, table, time, type Html } from '../views/html/widgets.ts'
import { done, found, tagIn, type Form, type Place } from '../views/html/place.ts'
import { outboundEmails } from '../mail/api.ts'
import { suppressions } from '../suppressions/api.ts'
import { audiences, contacts } from './api-audiences.ts'
import { consentsOfContact } from './page-consents.ts'
import { reasonWord, sourceWord, statusWord } from './page-words.ts'
import { faultIn, record, relatedId, text, type Answer, type Thing, type Visit } from '../views/html/visit.ts'
import { listOf, type ListView } from '../views/list.ts'

type ContactResource = Thing<typeof contacts>

const LABELS = {
  name: 'Name',
  custom_fields: 'Fields',
  status: 'Status',
} as const

const fieldsOf = (contact: ContactResource): readonly (readonly [string, string])[] =>
  Object.entries(record(contact, 'custom_fields')).map(
    ([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)] as const,
  )

/** The status field. It is omitted for bounced and complained contacts, which cannot be changed here. */
const statusField = (status: string, error: string | undefined): Html | '' =>
  status !== 'subscribed' && status !== 'unsubscribed'
    ? ''
    : field({
        name: 'status',
        label: LABELS.status,
        options:
          status === 'subscribed'
            ? [
                ['', 'Keep subscribed'],
                ['unsubscribed', 'Unsubscribe from campaigns'],
              ]
            : [
                ['', 'Keep unsubscribed'],
                ['subscribed', 'Subscribe again'],
              ],
        error,
      })

/** The history of a contact: when it was added, and why it gets no emails. */
async function historyOf(visit: Visit, one: ContactResource, domain: string | undefined): Promise<Html> {
  const email = encodeURIComponent(text(one, 'email'))
  const where = `filter%5Bemail%5D=${email}${domain === undefined ? '' : `&filter%5Bdomain%5D=${domain}`}`
  const { many } = await visit.get(suppressions, `/suppressions?${where}&page%5Bsize%5D=100`)
  const rows = many.map((each) => ({
    at: text(each, 'created_at'),
    what: `${text(each, 'scope') === 'all' ? 'Suppressed' : 'Suppressed for campaigns'}: ${reasonWord(text(each, 'reason'))}`,
    how: sourceWord(text(each, 'source')),
  }))
  const all = [...rows, { at: text(one, 'created_at'), what: 'Added to the audience', how: '' }]
  return table(
    'History',
    [{ title: 'Date', kind: 'time' }, { title: 'Event', width: 40 }, 'Source'],
    all.toSorted((a, b) => b.at.localeCompare(a.at)).map(({ at, how, what }) => [time(at), what, how]),
    '',
  )
}

function contactForm(
  visit: Visit,
  one: ContactResource,
  { errors, tag }: { errors: Answer['errors']; tag: string },
): Html {
  const fault = faultIn(errors, LABELS)
  return html`${form(
    visit,
    'save',
    html`<input
        type="hidden"
        name="tag"
        value="${tag}"
      />${field({ name: 'name', label: LABELS.name, value: text(one, 'name'), error: fault('name') })}
      <fieldset id="custom_fields">
        <legend>${LABELS.custom_fields}</legend>
        <p class="soft">Empty fields are deleted.</p>
        ${fault('custom_fields') === undefined ? '' : html`<p class="bad">${fault('custom_fields')!}</p>`}
        ${fieldsOf(one).map(([name, value], at) => field({ id: `field-${at}`, name: `field:${name}`, label: name, value, ...(value.includes('\n') ? { lines: 3 } : {}) }))}
        ${field({ name: 'new-name', label: 'New field name', hint: 'For example "city".' })}
        ${field({ name: 'new-value', label: 'New field value' })}
      </fieldset>
      ${statusField(text(one, 'status'), fault('status'))} <button>Save</button>`,
  )} `
}

const emailsTo = (one: ContactResource): ListView<typeof outboundEmails> => ({
  of: outboundEmails,
  from: `/outbound-emails?filter%5Bsearch%5D=${encodeURIComponent(`to:${text(one, 'email')}`)}`,
  caption: 'Emails',
  size: 25,
  columns: [
    { title: 'Date', kind: 'time', of: 'created_at' },
    {
      title: 'Subject',
      width: 40,
      of: (mail) => text(mail, 'subject') || '(no subject)',
      to: ({ id }) => `/mail/${id}`,
    },
    { title: 'Status', kind: 'status', of: 'status' },
    { title: 'Opened', kind: 'time', of: 'first_opened_at' },
    { title: 'Clicked', kind: 'time', of: 'first_clicked_at' },
  ],
  empty: 'No emails yet.',
})

/** The contact of a page. Throws 404 if it is not in the audience of the path. */
async function contactOf(visit: Visit) {
  const { audience, id } = visit.context.req.param() as { audience: string; id: string }
  const answer = found(await visit.get(contacts, `/contacts/${id}`))
  if (relatedId(answer.one, 'audience') !== audience) throw refuse('not_found', 'Page not found.')
  return { ...answer, id, list_id: audience }
}

async function showContact(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const { headers, list_id, one } = await contactOf(visit)
  const audience = await visit.get(audiences, `/audiences/${list_id}`)
  return page(visit, {
    title: text(one, 'email'),
    about: 'The contact’s data, and every email to this address.',
    crumbs: [
      ['/audiences', 'Audiences'],
      [`/audiences/${list_id}`, audience.one ? text(audience.one, 'name') : 'Audience'],
    ],
    errors,
    labels: LABELS,
    done: done(visit),
    body: html`${facts([
        ['Status', badge(statusWord(text(one, 'status')))],
        ['Added', time(one.attributes.created_at)],
        ...fieldsOf(one),
      ])}
      ${visit.reading ? '' : contactForm(visit, one, { errors, tag: headers.get('etag') ?? '' })}
      ${await consentsOfContact(visit, one.id)}
      <h2>History</h2>
      ${await historyOf(visit, one, audience.one && relatedId(audience.one, 'domain'))}
      <h2>Emails</h2>
      ${(await listOf(visit, emailsTo(one))).body}
      ${dangers(visit, [
        [
          html`Removes the contact from this audience only. To erase all data of a person, use
          ${visit.opens('/privacy') ? html`<a href="/privacy">Privacy</a>` : 'Privacy'}.`,
          button(visit, 'remove', 'Remove contact', {
            danger: true,
            confirm: 'This removes the contact from this audience only. To erase all data of a person, use Privacy.',
          }),
        ],
      ])}`,
  })
}

/** The fields as the form gives them. A value that was not edited keeps its type, such as a number. */
function fieldsIn(given: Form, contact: ContactResource): Record<string, unknown> {
  const values = record(contact, 'custom_fields')
  const kept = fieldsOf(contact).flatMap(([name, value]) => {
    const typed = given.get(`field:${name}`)
    return typed === '' ? [] : [[name, typed === value.replaceAll('\r\n', '\n') ? values[name] : typed] as const]
  })
  const name = given.get('new-name').trim()
  return Object.fromEntries([...kept, ...(name === '' ? [] : [[name, given.get('new-value')] as const])])
}

const HALF = 'A new field needs a name and a value.'
const CHANGED =
  'This contact was changed after you opened it. Your changes were not saved. The current values are below.'

export const contact: Place = {
  path: '/audiences/:audience/contacts/:id',
  show: (visit) => showContact(visit),
  async act(visit, given) {
    const { id, list_id, one } = await contactOf(visit)
    if (given.action === 'remove') {
      const gone = await visit.ask('DELETE', `/contacts/${id}`)
      return gone.status === 204
        ? visit.say(`/audiences/${list_id}`, `Removed ${text(one, 'email')} from this audience.`)
        : showContact(visit, gone.errors)
    }
    if ((given.get('new-name').trim() === '') !== (given.get('new-value') === ''))
      return showContact(visit, [{ code: 'invalid', field: 'custom_fields', detail: HALF }])
    const attributes = {
      name: given.get('name') || null,
      custom_fields: fieldsIn(given, one),
      ...(given.get('status') === '' ? {} : { status: given.get('status') }),
    }
    const answer = await visit.ask(
      'PATCH',
      `/contacts/${id}`,
      { type: 'contacts', id, attributes },
      { 'If-Match': tagIn(given) },
    )
    if (answer.errors.some(({ code }) => code === 'changed_meanwhile'))
      return showContact(visit, [{ code: 'changed_meanwhile', field: undefined, detail: CHANGED }])
    return answer.one
      ? visit.say(`/audiences/${list_id}/contacts/${id}`, `Saved ${text(one, 'email')}.`)
      : showContact(visit, answer.errors)
  },
}
