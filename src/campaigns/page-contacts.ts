// One contact: its data, and each mail to its address.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { button, dangers, field, form } from '../webui/forms.ts'
import { badge, facts, pageOf, pager, table, time, type Html } from '../webui/widgets.ts'
import { done, found, tagIn, type Form, type Place } from '../webui/place.ts'
import { outboundEmails } from '../mail/api.ts'
import { suppressions } from '../suppressions/api.ts'
import { audiences, contacts } from './api-audiences.ts'
import { reasonWord, sourceWord, statusWord } from './page-words.ts'
import { faultIn, record, relatedId, text, type Answer, type Thing, type Visit } from '../webui/visit.ts'

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

/** The choice of a status; what bounced or complained is not chosen away here. */
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
                ['unsubscribed', 'Unsubscribe: no campaigns any more'],
              ]
            : [
                ['', 'Keep as left'],
                ['subscribed', 'Subscribe again'],
              ],
        error,
      })

/** What is known of a person over time: when they came, and why they do not get mail. */
async function historyOf(visit: Visit, one: ContactResource, domain: string | undefined): Promise<Html> {
  const email = encodeURIComponent(text(one, 'email'))
  const where = `filter%5Bemail%5D=${email}${domain === undefined ? '' : `&filter%5Bdomain%5D=${domain}`}`
  const { many } = await visit.get(suppressions, `/suppressions?${where}&page%5Bsize%5D=100`)
  const rows = many.map((each) => ({
    at: text(each, 'created_at'),
    what: `${text(each, 'scope') === 'all' ? 'Gets no mail' : 'Gets no campaigns'}: ${reasonWord(text(each, 'reason'))}`,
    how: sourceWord(text(each, 'source')),
  }))
  const all = [...rows, { at: text(one, 'created_at'), what: 'Added to the audience', how: '' }]
  return table(
    'History',
    [{ title: 'When', kind: 'time' }, { title: 'What', width: 40 }, 'Known by'],
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
        <p class="soft">A field that is left empty is removed.</p>
        ${fault('custom_fields') === undefined ? '' : html`<p class="bad">${fault('custom_fields')!}</p>`}
        ${fieldsOf(one).map(([name, value], at) => field({ id: `field-${at}`, name: `field:${name}`, label: name, value, ...(value.includes('\n') ? { lines: 3 } : {}) }))}
        ${field({ name: 'new-name', label: 'Name of a new field', hint: 'Such as "city".' })}
        ${field({ name: 'new-value', label: 'Its value' })}
      </fieldset>
      ${statusField(text(one, 'status'), fault('status'))} <button>Save</button>`,
  )} `
}

async function showContact(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const { audience: list_id, id } = visit.context.req.param() as { audience: string; id: string }
  const { headers, one } = found(await visit.get(contacts, `/contacts/${id}`))
  const audience = await visit.get(audiences, `/audiences/${list_id}`)
  const mails = await visit.get(
    outboundEmails,
    `/outbound-emails?filter%5Bsearch%5D=${encodeURIComponent(`to:${text(one, 'email')}`)}&${pageOf(visit, 25)}`,
  )
  return page(visit, {
    title: text(one, 'email'),
    about: 'What is known of this person, and all mail that went there.',
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
      <h2>History</h2>
      ${await historyOf(visit, one, audience.one && relatedId(audience.one, 'domain'))}
      <h2>Mail</h2>
      ${table(
        'Mail',
        [
          { title: 'When', kind: 'time' },
          { title: 'Subject', width: 40 },
          { title: 'Status', kind: 'status' },
          { title: 'Opened', kind: 'time' },
          { title: 'Clicked', kind: 'time' },
        ],
        mails.many.map((mail) => [
          time(mail.attributes.created_at),
          html`<a href="/mail/${mail.id}">${text(mail, 'subject') || '(no subject)'}</a>`,
          badge(text(mail, 'status')),
          time(mail.attributes.first_opened_at),
          time(mail.attributes.first_clicked_at),
        ]),
        'Nothing was sent there yet.',
      )}
      ${pager(visit, mails)}
      ${dangers(visit, [
        [
          html`The contact is removed from this audience. <a href="/privacy">Privacy</a> forgets a person everywhere.`,
          button(visit, 'remove', 'Remove the contact', {
            danger: true,
            confirm: 'The contact is removed from this audience. Privacy forgets a person everywhere.',
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
  'Somebody has changed this contact since you opened it: below is what it holds now. Nothing of yours was saved.'

export const contact: Place = {
  path: '/audiences/:audience/contacts/:id',
  show: (visit) => showContact(visit),
  async act(visit, given) {
    const { audience: list_id, id } = visit.context.req.param() as { audience: string; id: string }
    if (given.action === 'remove') {
      const known = found(await visit.get(contacts, `/contacts/${id}`))
      const gone = await visit.ask('DELETE', `/contacts/${id}`)
      return gone.status === 204
        ? visit.say(`/audiences/${list_id}`, `${text(known.one, 'email')} is removed from this audience.`)
        : showContact(visit, gone.errors)
    }
    if ((given.get('new-name').trim() === '') !== (given.get('new-value') === ''))
      return showContact(visit, [{ code: 'invalid', field: 'custom_fields', detail: HALF }])
    const { one } = found(await visit.get(contacts, `/contacts/${id}`))
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
      ? visit.say(`/audiences/${list_id}/contacts/${id}`, `${text(one, 'email')} is saved.`)
      : showContact(visit, answer.errors)
  },
}
