// One contact: its data, and each mail to its address.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { button, field, form } from '../webui/forms.ts'
import { badge, facts, pageOf, pager, table, time, type Html } from '../webui/widgets.ts'
import { done, found, lead, type Form, type Place } from '../webui/place.ts'
import { outboundEmails } from '../mail/api.ts'
import { contacts } from './api-audiences.ts'
import { faultIn, record, text, type Answer, type Thing, type Visit } from '../webui/visit.ts'

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
        ${field({
          name: 'status',
          label: LABELS.status,
          options: [
            ['', 'as it is'],
            ['subscribed', 'subscribed'],
            ['unsubscribed', 'unsubscribed'],
          ],
          error: fault('status'),
        })} <button>Save</button>`,
    )}
    <p class="apart">
      ${button(visit, 'remove', 'Remove the contact', { danger: true, confirm: 'The contact is removed from this audience. Privacy forgets a person everywhere.' })}
    </p>`
}

async function showContact(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const { audience: list_id, id } = visit.context.req.param() as { audience: string; id: string }
  const { headers, one } = found(await visit.get(contacts, `/contacts/${id}`))
  const mails = await visit.get(
    outboundEmails,
    `/outbound-emails?filter%5Bsearch%5D=${encodeURIComponent(`to:${text(one, 'email')}`)}&${pageOf(visit, 25)}`,
  )
  return page(visit, {
    title: text(one, 'email'),
    about: 'What is known of this person, and each mail that was sent there.',
    crumbs: [
      ['/audiences', 'Audiences'],
      [`/audiences/${list_id}`, 'Audience'],
    ],
    errors,
    labels: LABELS,
    done: done(visit),
    body: html`${facts([
        ['Status', badge(text(one, 'status'))],
        ['Added', time(one.attributes.created_at)],
        ...fieldsOf(one),
      ])}
      ${visit.reading ? '' : contactForm(visit, one, { errors, tag: headers.get('etag') ?? '' })}
      <h2>Mails</h2>
      ${table(
        'Mails',
        [
          { title: 'When', kind: 'time' },
          { title: 'Subject', width: 40 },
          { title: 'Status', kind: 'status' },
          { title: 'Opened', kind: 'time' },
          { title: 'Followed a link', kind: 'time' },
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
      ${pager(visit, mails)}`,
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
      const gone = await visit.ask('DELETE', `/contacts/${id}`)
      return gone.status === 204 ? lead(visit, `/audiences/${list_id}`, 'removed') : showContact(visit, gone.errors)
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
      { 'If-Match': given.get('tag') },
    )
    if (answer.errors.some(({ code }) => code === 'changed_meanwhile'))
      return showContact(visit, [{ code: 'changed_meanwhile', field: undefined, detail: CHANGED }])
    return answer.one ? lead(visit, `/audiences/${list_id}/contacts/${id}`, 'saved') : showContact(visit, answer.errors)
  },
}
