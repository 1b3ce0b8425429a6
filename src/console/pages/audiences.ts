// Audiences: lists of subscribers, and the state of each contact.
import { html } from 'hono/html'
import { parseAddress } from '../../message/address.ts'
import { page } from '../frame.ts'
import { button, field, form } from '../forms.ts'
import { badge, count, pageOf, pager, search, table, time, type Html } from '../parts.ts'
import { done, found, lead, type Form, type Place } from '../place.ts'
import { faultIn, number, text, type Answer, type Visit } from '../visit.ts'
import { csv, plainLine, readTable, type Sheet } from '../csv.ts'

const LABELS = { name: 'Name' } as const

const MAX_FILE = 5 * 1024 * 1024
/** Contacts in one request to the API. */
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
  const fault = faultIn(errors, LABELS)
  const options = domains.map((domain) => [domain.id, text(domain, 'name')] as const)
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

/** The result of an import. */
interface Imported {
  created: number
  skipped: number
  problems: { line: number; reason: string }[]
}

const STATUSES = ['subscribed', 'unsubscribed', 'bounced', 'complained'] as const

async function showOne(visit: Visit, errors: Answer['errors'] = [], extra: Html | '' = ''): Promise<Response> {
  const id = visit.context.req.param('id')!
  const { one } = found(await visit.get(`/audiences/${id}`))
  const q = visit.query('q')
  const status = STATUSES.find((each) => each === visit.query('status')) ?? ''
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

/** The most rows without a valid address that the preview names. */
const MAX_NAMED = 10
const STATUS = /^(?:status|subscription[ _]?status|email_blacklist|unsubscribed|optin.*status)$/i

interface Reading {
  email: number
  name: number
  sheet: Sheet
}

/** Reads a file; gives a sentence when the file cannot be used. */
async function readingOf(given: Form): Promise<Reading | string> {
  const file = given.file('file')
  const held = given.get('held')
  if (!file && held === '') return 'Choose a file.'
  if (file && file.size > MAX_FILE) return 'The file has more than 5 MB; "postrider contacts import" takes larger ones.'
  const read = readTable(file ? new Uint8Array(await file.arrayBuffer()) : new TextEncoder().encode(held))
  if (typeof read === 'string') return read
  const status = read.titles.find((title) => STATUS.test(title))
  // People who have unsubscribed must not be subscribed again. Only the command reads columns with a status.
  if (status !== undefined)
    return `The column "${status}" says who has left. "postrider contacts import" obeys it; this page would subscribe them again, so it does not take the file.`
  const at = (names: RegExp): number => read.titles.findIndex((title) => names.test(title))
  const email = at(/^e-?mail(?:[ _-]?address)?$|^address$/i)
  if (email < 0) return 'The file has no column "email".'
  return { email, name: at(/^(?:full[ _]?)?name$/i), sheet: read }
}

function preview(visit: Visit, { email, name, sheet }: Reading): Html {
  const bad = sheet.rows.flatMap((row, at) => {
    const said = (row[email] ?? '').trim()
    return parseAddress(said) ? [] : [{ line: at + 2, said }]
  })
  const source = [sheet.titles, ...sheet.rows].map(plainLine).join('')
  const uses = sheet.titles.map((title, at) => (at === email ? 'address' : at === name ? 'name' : `field {{${title}}}`))
  return html`<section class="alert">
    <h2>What is in the file</h2>
    <p>${count(sheet.rows.length)} rows.</p>
    ${
      bad.length === 0
        ? ''
        : html`<p>
            ${badge('warn')} ${bad.length === 1 ? 'One row has' : `${count(bad.length)} rows have`} no valid address and
            will be left out: ${bad.slice(0, MAX_NAMED).map(({ line, said }) => html`line ${line} (“${said}”) `)}
            ${bad.length > MAX_NAMED ? html`and ${count(bad.length - MAX_NAMED)} more.` : ''}
          </p>`
    }
    <p>The first five:</p>
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
      type: 'contacts',
      attributes: { contacts },
    })
    if (!answer.one) {
      result.problems.push(...answer.errors.map(({ detail }) => ({ line: from + 2, reason: detail })))
      break
    }
    result.created += number(answer.one, 'created')
    result.skipped += number(answer.one, 'skipped')
    const errors = (answer.one.attributes['errors'] ?? []) as { index?: number; email?: string; detail?: string }[]
    for (const { detail, email: given, index } of errors)
      result.problems.push({
        line: from + (index ?? 0) + 2,
        reason: `“${given ?? ''}” ${detail?.replace(/^email: /, '') ?? ''}`,
      })
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

export const audiencePlaces = [download, audience, list]
