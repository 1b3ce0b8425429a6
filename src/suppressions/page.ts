// Suppressions: addresses that must not get mail, with reason and date. They are added by hand or from a file.
import { isOneOf } from '../base/one-of.ts'
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { button, field, form } from '../webui/forms.ts'
import { badge, pageOf, pager, search, table, time } from '../webui/widgets.ts'
import { suppressions } from './api.ts'
import { done, lead, type Form, type Place } from '../webui/place.ts'
import { namesOf, relatedId, text, type Answer, type Visit } from '../webui/visit.ts'
import { tableApart } from '../webui/apart.ts'
import { csv } from '../webui/csv.ts'

const LABELS = { domain: 'Sending domain', emails: 'Addresses, one in a line' } as const
const REASONS = ['manual', 'list_import', 'unsubscribe', 'hard_bounce', 'complaint'] as const
const MAX_FILE = 5 * 1024 * 1024
/** Why an entry is not taken back here. */
const PERMANENT = {
  hard_bounce: 'stays: the receiver says that there is no such address',
  complaint: 'stays: the person called your mail spam',
} as const
/** Rows in one request; the API's own limit. */
const AT_ONCE = 10_000

async function show(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const q = visit.query('q')
  const [answer, options] = await Promise.all([
    visit.get(
      suppressions,
      `/suppressions?include=domain&${pageOf(visit)}${q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`}`,
    ),
    visit.names('/domains'),
  ])
  const names = namesOf(answer.included)
  const rows = answer.many.map((each) => [
    text(each, 'email'),
    badge(text(each, 'reason')),
    text(each, 'scope') === 'all' ? 'all mail' : 'campaigns',
    names.get(relatedId(each, 'domain') ?? '') ?? '',
    time(each.attributes.created_at),
    each.attributes.expires_at === null ? 'for good' : time(each.attributes.expires_at),
    text(each, 'reason') in PERMANENT
      ? html`<span class="soft">${PERMANENT[text(each, 'reason') as keyof typeof PERMANENT]}</span>`
      : button(visit, 'remove', 'Take back', {
          fields: { id: each.id },
          confirm: `${text(each, 'email')} gets mail again.`,
        }),
  ])
  return page(visit, {
    title: 'Suppressions',
    about: 'Addresses that your domains do not write to, and why.',
    errors,
    labels: LABELS,
    done: done(visit),
    body: html`${search(visit, 'Search an address')}
      ${table('Suppressions', ['Address', 'Reason', 'Stops', 'Domain', 'Since', 'Until', ''], rows, q === '' ? 'Nobody is suppressed. Bounces and complaints bring addresses here by themselves.' : 'No address holds that.')}
      ${pager(visit, answer)}
      <p><a href="/suppressions/export.csv">Export all as CSV</a></p>
      <details>
        <summary>An address is right after all</summary>
        <p>
          Bounces and complaints stay, because receivers distrust a sender who writes to such an address again. When the
          address works now, or its owner asks for your mail, the operator of this server removes the entry with
          <code>postrider suppression remove ADDRESS --domain DOMAIN</code>.
        </p>
      </details>
      ${
        visit.reading || options.length === 0
          ? ''
          : html`<h2>Add addresses</h2>
              ${form(
                visit,
                'add',
                html`${field({ name: 'domain', label: LABELS.domain, options, required: true, value: typed?.get('domain') ?? '' })}
                  ${field({ name: 'emails', label: LABELS.emails, lines: 4, value: typed?.get('emails') ?? '' })}
                  ${field({ name: 'file', label: 'Or a CSV file', type: 'file', accept: '.csv,text/csv', hint: 'A column "email", and if you like "reason".' })}
                  ${field({ name: 'reason', label: 'Reason', options: REASONS.map((each) => [each, each.replaceAll('_', ' ')] as const), value: typed?.get('reason') || 'manual' })}
                  <button>Add</button>`,
                { multipart: true },
              )}`
      }`,
  })
}

/** The typed rows, or the rows of the file; otherwise a sentence about the error. */
async function rowsOf(given: Form): Promise<{ email: string; reason: string }[] | string> {
  const reason = given.get('reason') || 'manual'
  const file = given.file('file')
  if (!file)
    return given
      .get('emails')
      .split('\n')
      .map((email) => ({ email: email.trim(), reason }))
      .filter(({ email }) => email !== '')
  if (file.size > MAX_FILE) return 'The file has more than 5 MB; "postrider suppression import" takes larger ones.'
  const read = await tableApart(new Uint8Array(await file.arrayBuffer()))
  if (typeof read === 'string') return read
  const at = (names: RegExp): number => read.titles.findIndex((title) => names.test(title))
  const email = at(/^e-?mail|^address|^recipient/i)
  const why = at(/^reason$|^type$/i)
  if (email < 0) return 'The file has no column "email".'
  return read.rows.map((row) => {
    const given_reason = (row[why] ?? '').toLowerCase().replaceAll(/[\s-]+/g, '_')
    const known = isOneOf(REASONS, given_reason)
    return { email: (row[email] ?? '').trim(), reason: known ? given_reason : reason }
  })
}

/** The API's refusals of single rows, with the address in place of the row's number. */
const named = (errors: Answer['errors'], rows: readonly { email: string }[]): Answer['errors'] =>
  errors.map((error) => ({
    ...error,
    detail: error.detail.replace(/^"suppressions\.(\d+)\.email"/, (_, row) => `"${rows[Number(row)]?.email ?? ''}"`),
  }))

const list: Place = {
  path: '/suppressions',
  show: (visit) => show(visit),
  async act(visit, given) {
    if (given.action === 'remove') {
      const gone = await visit.ask('DELETE', `/suppressions/${given.get('id')}`)
      return gone.status === 204 ? lead(visit, '/suppressions', 'removed') : show(visit, gone.errors)
    }
    const rows = await rowsOf(given)
    if (typeof rows === 'string' || rows.length === 0) {
      const detail = typeof rows === 'string' ? rows : 'Give at least one address.'
      return show(visit, [{ code: 'invalid', field: 'emails', detail }], given)
    }
    for (let from = 0; from < rows.length; from += AT_ONCE) {
      const answer = await visit.ask('POST', '/suppression-imports', {
        type: 'suppression-imports',
        attributes: { suppressions: rows.slice(from, from + AT_ONCE) },
        relationships: { domain: { data: { type: 'domains', id: given.get('domain') } } },
      })
      if (!answer.one) return show(visit, named(answer.errors, rows.slice(from)), given)
    }
    return lead(visit, '/suppressions', 'added')
  },
}

const EXPORTED = ['email', 'reason', 'scope', 'created_at', 'expires_at'] as const

const download: Place = {
  path: '/suppressions/export.csv',
  show: (visit) =>
    csv(visit, 'suppressions.csv', {
      of: suppressions,
      path: '/suppressions?',
      titles: EXPORTED,
      row: (each) => EXPORTED.map((name) => text(each, name)),
    }),
}

export const suppressionPlaces = [download, list]
