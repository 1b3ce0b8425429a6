// Audiences: lists of people who asked for news, and what became of each contact.
import { html } from 'hono/html'
import { page } from '../frame.ts'
import { badge, button, count, facts, field, form, pageOf, pager, search, table, time, type Html } from '../parts.ts'
import { done, found, lead, type Form, type Place } from '../place.ts'
import { number, text, type Answer, type Thing, type Visit } from '../visit.ts'
import { csv, plainLine, readTable, type Sheet } from '../csv.ts'

const MAX_FILE = 5 * 1024 * 1024
/** Contacts that one request of the API takes here. */
const AT_ONCE = 500

async function showAll(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const [answer, domains] = await Promise.all([
    visit.get(`/audiences?include=domain&${pageOf(visit)}`),
    visit.all('/domains'),
  ])
  const names = new Map(answer.included.map((each) => [each.id, text(each, 'name')]))
  const rows = answer.many.map((audience) => [
    html`<a href="/audiences/${audience.id}">${text(audience, 'name')}</a>`,
    count(number(audience, 'contacts_count')),
    names.get(audience.relationships?.['domain']?.data?.id ?? '') ?? '',
    text(audience, 'description'),
  ])
  const fault = (name: string): string | undefined => errors.find((each) => each.field === name)?.detail
  const options = domains.map((domain) => [domain.id, text(domain, 'name')] as const)
  return page(visit, {
    title: 'Audiences',
    about: 'Lists of people who asked for your news. A campaign goes to one audience.',
    errors: errors.filter(({ field: name }) => name === undefined),
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
              html`${field({ name: 'name', label: 'Name', required: true, value: typed?.get('name') ?? '', error: fault('name') })}
                ${field({ name: 'domain', label: 'Sending domain', options, value: typed?.get('domain') ?? '' })}
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

/** What an import came to. */
interface Imported {
  created: number
  skipped: number
  problems: { line: number; reason: string }[]
}

async function showOne(visit: Visit, errors: Answer['errors'] = [], extra: Html | '' = ''): Promise<Response> {
  const id = visit.context.req.param('id')!
  const { one } = found(await visit.get(`/audiences/${id}`))
  const q = visit.query('q')
  const status = visit.query('status')
  const answer = await visit.get(
    `/audiences/${id}/contacts?${pageOf(visit)}${q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`}${status === '' ? '' : `&filter%5Bstatus%5D=${encodeURIComponent(status)}`}`,
  )
  return page(visit, {
    title: text(one, 'name'),
    about: `${count(number(one, 'contacts_count'))} contacts.`,
    errors: [...errors, ...answer.errors],
    done: done(visit),
    body: html`${extra} ${search(visit, 'Search an address or a name', '', status === '' ? {} : { status })}
      <nav class="tabs" aria-label="Status">
        ${['', 'subscribed', 'unsubscribed', 'bounced', 'complained'].map(
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
          time(contact.attributes['created_at']),
        ]),
        q === '' && status === '' ? 'Nobody yet. Import a file below, or add somebody.' : 'Nobody fits.',
      )}
      ${pager(visit, answer)}
      <p>
        <a href="/audiences/${id}/export.csv">Export as CSV</a> ·
        <a href="/campaigns/new?audience=${id}">Write a campaign to them</a>
      </p>
      ${
        visit.reading
          ? ''
          : html`<h2>Add a contact</h2>
              ${form(visit, 'add', html`${field({ name: 'email', label: 'Address', type: 'email', required: true })} ${field({ name: 'name', label: 'Name' })}<button>Add</button>`)}
              <h2>Import a CSV file</h2>
              ${form(
                visit,
                'preview',
                html`${field({ name: 'file', label: 'File', type: 'file', accept: '.csv,text/csv', required: true, hint: 'A column "email"; "name" and all others become fields. Columns of status are for "postrider contacts import".' })}
                  <button>Look at it first</button>`,
                { multipart: true },
              )}
              ${button(visit, 'remove', 'Remove the audience', { danger: true, confirm: 'The audience and all its contacts are removed.' })}`
      }`,
  })
}

const STATUS = /^(?:status|subscription[ _]?status|email_blacklist|unsubscribed|optin.*status)$/i

interface Reading {
  email: number
  name: number
  sheet: Sheet
}

/** How a file is read; a sentence when it cannot be. */
async function readingOf(given: Form): Promise<Reading | string> {
  const file = given.file('file')
  const held = given.get('held')
  if (!file && held === '') return 'Choose a file.'
  if (file && file.size > MAX_FILE) return 'The file has more than 5 MB; "postrider contacts import" takes larger ones.'
  const read = readTable(file ? new Uint8Array(await file.arrayBuffer()) : new TextEncoder().encode(held))
  if (typeof read === 'string') return read
  const status = read.titles.find((title) => STATUS.test(title))
  // Who has left must not be subscribed again: only the command obeys what such columns say.
  if (status !== undefined)
    return `The column "${status}" says who has left. "postrider contacts import" obeys it; this page would subscribe them again, so it does not take the file.`
  const at = (names: RegExp): number => read.titles.findIndex((title) => names.test(title))
  const email = at(/^e-?mail(?:[ _-]?address)?$|^address$/i)
  if (email < 0) return 'The file has no column "email".'
  return { email, name: at(/^(?:full[ _]?)?name$/i), sheet: read }
}

function preview(visit: Visit, { email, name, sheet }: Reading): Html {
  const source = [sheet.titles, ...sheet.rows].map(plainLine).join('')
  const uses = sheet.titles.map((title, at) => (at === email ? 'address' : at === name ? 'name' : `field {{${title}}}`))
  return html`<section class="alert">
    <h2>What is in the file</h2>
    <p>${count(sheet.rows.length)} rows. The first five:</p>
    ${table(
      'Preview',
      sheet.titles.map((title, at) => `${title} → ${uses[at]!}`),
      sheet.rows.slice(0, 5).map((row) => sheet.titles.map((_, at) => row[at] ?? '')),
      'No rows.',
    )}
    ${form(visit, 'import', html`<textarea class="hidden" name="held" aria-hidden="true" tabindex="-1">${source}</textarea><button>Import ${count(sheet.rows.length)} rows</button>`)}
  </section>`
}

async function bring(visit: Visit, id: string, { email, name, sheet }: Reading): Promise<Imported> {
  const result: Imported = { created: 0, skipped: 0, problems: [] }
  for (let from = 0; from < sheet.rows.length; from += AT_ONCE) {
    const contacts = sheet.rows.slice(from, from + AT_ONCE).map((row) => ({
      email: (row[email] ?? '').trim(),
      ...(name >= 0 && row[name] ? { name: row[name] } : {}),
      custom_fields: Object.fromEntries(
        sheet.titles.flatMap((title, at) =>
          at === email || at === name || title === '' || !row[at] ? [] : [[title, row[at]]],
        ),
      ),
    }))
    const answer = await visit.ask('POST', `/audiences/${id}/contacts/import`, {
      type: 'contact-imports',
      attributes: { contacts },
    })
    if (!answer.one) {
      result.problems.push(...answer.errors.map(({ detail }) => ({ line: from + 2, reason: detail })))
      break
    }
    result.created += number(answer.one, 'created')
    result.skipped += number(answer.one, 'skipped')
    const errors = (answer.one.attributes['errors'] ?? []) as { index?: number; detail?: string }[]
    for (const { detail, index } of errors)
      result.problems.push({ line: from + (index ?? 0) + 2, reason: detail ?? '' })
  }
  return result
}

const audience: Place = {
  path: '/audiences/:id',
  show: (visit) => showOne(visit),
  async act(visit, given) {
    const id = visit.context.req.param('id')!
    if (given.action === 'remove') {
      const gone = await visit.ask('DELETE', `/audiences/${id}`)
      return gone.status === 204 ? lead(visit, '/audiences', 'removed') : showOne(visit, gone.errors)
    }
    if (given.action === 'preview' || given.action === 'import') {
      const reading = await readingOf(given)
      if (typeof reading === 'string') return showOne(visit, [{ code: 'invalid', field: undefined, detail: reading }])
      if (given.action === 'preview') return showOne(visit, [], preview(visit, reading))
      const { created, problems, skipped } = await bring(visit, id, reading)
      const report = html`<div class="done" role="status">
        <p>${count(created)} added, ${count(skipped)} skipped (there already, or refused).</p>
        ${
          problems.length === 0
            ? ''
            : html`<ul>
                ${problems.slice(0, 50).map(({ line, reason }) => html`<li>line ${line}: ${reason}</li>`)}
              </ul>`
        }
      </div>`
      return showOne(visit, [], report)
    }
    const answer = await visit.ask('POST', `/audiences/${id}/contacts`, {
      type: 'contacts',
      attributes: { email: given.get('email'), ...(given.get('name') === '' ? {} : { name: given.get('name') }) },
    })
    return answer.one ? lead(visit, `/audiences/${id}`, 'added') : showOne(visit, answer.errors)
  },
}

const download: Place = {
  path: '/audiences/:id/export.csv',
  async show(visit) {
    const id = visit.context.req.param('id')!
    found(await visit.get(`/audiences/${id}`))
    return csv(
      visit,
      'contacts.csv',
      ['email', 'name', 'status', 'fields', 'created_at'],
      `/audiences/${id}/contacts?`,
      (each) => [
        text(each, 'email'),
        text(each, 'name'),
        text(each, 'status'),
        JSON.stringify(each.attributes['custom_fields'] ?? {}),
        text(each, 'created_at'),
      ],
    )
  },
}

const fieldsOf = (contact: Thing): readonly (readonly [string, string])[] =>
  Object.entries((contact.attributes['custom_fields'] ?? {}) as Record<string, unknown>).map(
    ([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)] as const,
  )

async function showContact(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const { audience: list_id, id } = visit.context.req.param() as { audience: string; id: string }
  const { one } = found(await visit.get(`/contacts/${id}`))
  const mails = await visit.get(
    `/outbound-emails?filter%5Bsearch%5D=${encodeURIComponent(`to:${text(one, 'email')}`)}&${pageOf(visit, 25)}`,
  )
  const fault = (name: string): string | undefined => errors.find((each) => each.field === name)?.detail
  return page(visit, {
    title: text(one, 'email'),
    about: 'One contact: what is known, and each mail that was sent there.',
    errors: errors.filter(({ field: name }) => name === undefined),
    done: done(visit),
    body: html`${facts([
        ['Status', badge(text(one, 'status'))],
        ['Added', time(one.attributes['created_at'])],
        ...fieldsOf(one),
      ])}
      ${
        visit.reading
          ? ''
          : html`${form(
              visit,
              'save',
              html`${field({ name: 'name', label: 'Name', value: text(one, 'name'), error: fault('name') })}
                ${field({
                  name: 'fields',
                  label: 'Fields',
                  lines: 4,
                  value: fieldsOf(one)
                    .map(([name, value]) => `${name}: ${value}`)
                    .join('\n'),
                  hint: 'One in a line, such as "city: Bergen".',
                  error: fault('custom_fields'),
                })}
                ${field({
                  name: 'status',
                  label: 'Status',
                  options: [
                    ['', 'as it is'],
                    ['subscribed', 'subscribed'],
                    ['unsubscribed', 'unsubscribed'],
                  ],
                  error: fault('status'),
                })} <button>Save</button>`,
            )}
            ${button(visit, 'remove', 'Remove the contact', { danger: true, confirm: 'The contact is removed from this audience. Privacy forgets a person everywhere.' })}`
      }
      <p><a href="/audiences/${list_id}">Back to the audience</a></p>
      <h2>Mails</h2>
      ${table(
        'Mails',
        ['When', 'Subject', 'Status'],
        mails.many.map((mail) => [
          time(mail.attributes['created_at']),
          html`<a href="/mail/${mail.id}">${text(mail, 'subject') || '(no subject)'}</a>`,
          badge(text(mail, 'status')),
        ]),
        'Nothing was sent there yet.',
      )}
      ${pager(visit, mails)}`,
  })
}

const contact: Place = {
  path: '/audiences/:audience/contacts/:id',
  show: (visit) => showContact(visit),
  async act(visit, given) {
    const { audience: list_id, id } = visit.context.req.param() as { audience: string; id: string }
    if (given.action === 'remove') {
      const gone = await visit.ask('DELETE', `/contacts/${id}`)
      return gone.status === 204 ? lead(visit, `/audiences/${list_id}`, 'removed') : showContact(visit, gone.errors)
    }
    const lines = given
      .get('fields')
      .split('\n')
      .flatMap((line) => {
        const [, name, value] = /^\s*([^:]+?)\s*:\s*(.*?)\s*$/.exec(line) ?? []
        return name === undefined ? [] : [[name, value ?? ''] as const]
      })
    const answer = await visit.ask('PATCH', `/contacts/${id}`, {
      type: 'contacts',
      id,
      attributes: {
        name: given.get('name') || null,
        custom_fields: Object.fromEntries(lines),
        ...(given.get('status') === '' ? {} : { status: given.get('status') }),
      },
    })
    return answer.one ? lead(visit, `/audiences/${list_id}/contacts/${id}`, 'saved') : showContact(visit, answer.errors)
  },
}

export const audiencePlaces = [contact, download, audience, list]
