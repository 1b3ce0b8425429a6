// Suppressions: addresses that must not get mail, with reason and date. They are added by hand or from a file.
import { isNameIn, isOneOf, namesIn } from '../base/one-of.ts'
import { iso } from '../base/clock.ts'
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { button, field, fieldMaker, form, type FormField } from '../webui/forms.ts'
import {
  badge,
  count,
  pageOf,
  pager,
  search,
  table,
  tabs,
  time,
  type Cell,
  type Html,
  type TableColumn,
} from '../webui/widgets.ts'
import { suppressionImports } from './api.ts'
import { reasonWord } from '../campaigns/page-words.ts'
import { suppressions } from '../suppressions/api.ts'
import { done, type Form, type Place } from '../webui/place.ts'
import { namesOf, number, relatedId, text, thingOf, type Answer, type Thing, type Visit } from '../webui/visit.ts'
import { csv } from '../webui/csv.ts'
import { suppressionsApart, uploadIn } from './apart.ts'
import type { RowError } from './import.ts'
import { programField } from './page-import.ts'
import { named } from './page-import-preview.ts'
import { SUPPRESSORS } from './programs.ts'

const LABELS = { domain: 'Sending domain', emails: 'Addresses, one in a line' } as const
const REASONS = ['manual', 'list_import', 'unsubscribe', 'hard_bounce', 'complaint'] as const
/** Reasons that only an operator takes back, with what the person should know before. */
const PERMANENT: Readonly<Record<string, string>> = {
  hard_bounce: 'The receiver said that there is no such address',
  complaint: 'The person called your mail spam',
}
/** Rows in one request; the API's own limit. */
const AT_ONCE = 1000

type SuppressionShown = Thing<typeof suppressions>

/** Whom an entry is about. An erased person stays as a hash, which says nothing to anybody. */
function personIn(entry: SuppressionShown): Cell {
  const email = text(entry, 'email')
  if (!email.startsWith('#')) return email
  // An entry that the erasure made, or changed.
  const known = text(entry, 'reason') === 'manual' || text(entry, 'updated_at') > text(entry, 'created_at')
  return known ? html`Forgotten person (erased ${time(entry.attributes.updated_at)})` : 'Forgotten person'
}

/** The button that allows mail again; an operator has it for every entry. */
function allow(visit: Visit, entry: SuppressionShown): Cell {
  const why = PERMANENT[text(entry, 'reason')]
  if (why !== undefined && !visit.operator) return ''
  const email = text(entry, 'email')
  const who = email.startsWith('#') ? 'This person' : email
  const warning = why === undefined ? '' : ` ${why}: receivers distrust a sender who writes there again.`
  return button(visit, why === undefined ? 'remove' : 'release', 'Allow again', {
    fields: { id: entry.id, who },
    confirm: `${who} gets mail again.${warning}`,
  })
}

const FILTERS = ['unsubscribe', 'hard_bounce', 'complaint', 'manual', 'list_import'] as const

const capital = (words: string): string => words.slice(0, 1).toUpperCase() + words.slice(1)

const reasonTabs = (reason: string): Html =>
  tabs(
    'Reason',
    ['', ...FILTERS].map((each) => ({
      to: `/suppressions${each === '' ? '' : `?reason=${each}`}`,
      name: each === '' ? 'All' : capital(reasonWord(each)),
      here: each === reason,
    })),
  )

const COLUMNS: readonly (string | TableColumn)[] = [
  'Address',
  { title: 'Reason', kind: 'status' },
  { title: 'Stops', width: 10 },
  { title: 'Domain', width: 15 },
  { title: 'Since', kind: 'time' },
  { title: 'Until', kind: 'time' },
  { title: '', kind: 'action' },
]

/** What to do about an address that was suppressed and is right. */
const mistaken = ({ operator }: Visit): Html =>
  html`<details>
    <summary>An address is right after all</summary>
    <p>
      Bounces and complaints stay, because receivers distrust a sender who writes to such an address again.
      ${
        operator
          ? 'Allow it again only when the address works now, or its owner asks for your mail.'
          : 'When the address works now, or its owner asks for your mail, the operator of this server can allow it again.'
      }
    </p>
  </details>`

async function show(visit: Visit, errors: Answer['errors'] = [], report: Html | '' = ''): Promise<Response> {
  const q = visit.query('q')
  const asked = visit.query('reason')
  const reason = isOneOf(FILTERS, asked) ? asked : ''
  const filter = `${q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`}${reason === '' ? '' : `&filter%5Breason%5D=${reason}`}`
  const [answer, options] = await Promise.all([
    visit.get(suppressions, `/suppressions?include=domain&${pageOf(visit)}${filter}`),
    visit.names('/domains'),
  ])
  const mayAdd = !visit.reading && options.length > 0
  const names = namesOf(answer.included)
  const rows = answer.many.map((each) => [
    personIn(each),
    badge(reasonWord(text(each, 'reason'))),
    text(each, 'scope') === 'all' ? 'all mail' : 'campaigns',
    names.get(relatedId(each, 'domain') ?? '') ?? '',
    time(each.attributes.created_at),
    each.attributes.expires_at === null ? 'for good' : time(each.attributes.expires_at),
    allow(visit, each),
  ])
  return page(visit, {
    title: 'Suppressions',
    about: 'Addresses that your domains do not write to, and why.',
    actions: html`<a class="button plain" href="/suppressions/export.csv">Export</a>
      ${mayAdd ? html`<a class="button" href="/suppressions/new">Add addresses</a>` : ''}`,
    errors,
    done: done(visit),
    body: html`${report} ${reasonTabs(reason)}
    ${search(visit, 'Search an address', '', reason === '' ? {} : { reason })}
    ${table(
      'Suppressions',
      COLUMNS,
      rows,
      q === '' && reason === ''
        ? 'Nobody is suppressed. Bounces and complaints bring addresses here by themselves.'
        : 'No address fits.',
    )}
    ${pager(visit, answer)} ${mistaken(visit)}`,
  })
}

/** The form that adds addresses, empty or as it was refused. */
async function showNew(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const options = await visit.names('/domains')
  return page(visit, {
    title: 'Add addresses',
    about: 'Your domains do not write to them any more.',
    crumbs: [['/suppressions', 'Suppressions']],
    errors,
    labels: LABELS,
    body: addition(visit, options, { errors, typed }),
  })
}

const fresh: Place = { path: '/suppressions/new', changes: true, show: (visit) => showNew(visit) }

function addition(
  visit: Visit,
  options: FormField['options'] & {},
  { errors, typed }: { errors: Answer['errors']; typed: Form | undefined },
): Html {
  const entry = fieldMaker(LABELS, errors, typed)
  return form(
    visit,
    'add',
    html`${entry('domain', { options, required: true })} ${entry('emails', { lines: 4 })}
      ${field({ name: 'file', label: 'Or a CSV file', type: 'file', accept: '.csv,.json,text/csv,application/json', hint: 'A column "email", and if you like "reason".' })}
      ${programField(Object.keys(SUPPRESSORS), typed?.get('from') ?? '')}
      ${field({ name: 'reason', label: 'Reason', options: REASONS.map((each) => [each, reasonWord(each)] as const), value: typed?.get('reason') || 'manual' })}
      <button>Add</button>`,
    { multipart: true, to: '/suppressions' },
  )
}

interface Entries {
  /** What the API is given: typed addresses, or entries of a file in rows of titles that it reads. */
  attribute: 'suppressions' | 'rows'
  rows: { email: string; reason: string }[]
  skipped: number
  errors: RowError[]
}

/** The typed addresses, or the entries of the file; otherwise a sentence about the error. */
async function entriesOf(visit: Visit, given: Form): Promise<Entries | string> {
  const chosen = given.get('reason')
  const reason = isOneOf(REASONS, chosen) ? chosen : 'manual'
  if (!given.file('file')) {
    const rows = given
      .get('emails')
      .split('\n')
      .map((email) => ({ email: email.trim(), reason }))
      .filter(({ email }) => email !== '')
    return rows.length === 0
      ? 'Give at least one address.'
      : { attribute: 'suppressions', rows, skipped: 0, errors: [] }
  }
  const upload = await uploadIn(given)
  if (typeof upload === 'string') return upload
  const from = given.get('from')
  const wishes = { from: isNameIn(SUPPRESSORS, from) ? from : undefined, silent: reason, page: true } as const
  const list = await suppressionsApart(upload, wishes, visit.now())
  if (typeof list === 'string') return list
  const rows = list.items.map(({ item: { expires_at, ...entry } }) => ({
    ...entry,
    expires_at: expires_at === null ? '' : iso(expires_at),
  }))
  return { attribute: 'rows', rows, skipped: list.rows - rows.length, errors: list.errors }
}

/** The API's refusals of single rows, with the address in place of the row's number. */
const addressed = (errors: Answer['errors'], rows: readonly { email: string }[]): Answer['errors'] =>
  errors.map((error) => ({
    ...error,
    detail: error.detail.replace(/^"suppressions\.(\d+)\.email"/, (_, row) => `"${rows[Number(row)]?.email ?? ''}"`),
  }))

async function add(visit: Visit, given: Form): Promise<Response> {
  const entries = await entriesOf(visit, given)
  if (typeof entries === 'string') return showNew(visit, [{ code: 'invalid', field: 'emails', detail: entries }], given)
  const { attribute, errors, rows } = entries
  const sums = { created: 0, updated: 0, skipped: entries.skipped }
  for (let from = 0; from < rows.length; from += AT_ONCE) {
    const answer = await visit.ask('POST', '/suppression-imports', {
      type: 'suppression-imports',
      attributes: { [attribute]: rows.slice(from, from + AT_ONCE) },
      relationships: { domain: { data: { type: 'domains', id: given.get('domain') } } },
    })
    if (!answer.one) return showNew(visit, addressed(answer.errors, rows.slice(from)), given)
    for (const name of namesIn(sums)) sums[name] += number(thingOf(suppressionImports, answer.one), name)
  }
  if (attribute === 'suppressions') return visit.say('/suppressions', said(sums.created + sums.updated))
  const report = html`<div class="done" role="status">
    <p>${count(sums.created)} added, ${count(sums.updated)} stopped more widely, ${count(sums.skipped)} skipped.</p>
    ${errors.length === 0 ? '' : named(errors, 50)}
  </div>`
  return show(visit, [], report)
}

const said = (sum: number): string =>
  sum === 1 ? '1 address is suppressed now.' : `${count(sum)} addresses are suppressed now.`
const allowed = (given: Form): string => `${given.get('who').slice(0, 320)} gets mail again.`

const list: Place = {
  path: '/suppressions',
  show: (visit) => show(visit),
  async act(visit, given) {
    if (given.action === 'remove') {
      const gone = await visit.ask('DELETE', `/suppressions/${given.get('id')}`)
      return gone.status === 204 ? visit.say('/suppressions', allowed(given)) : show(visit, gone.errors)
    }
    if (given.action === 'release') {
      const { one, errors } = await visit.ask('POST', `/suppressions/${given.get('id')}/release`)
      return one ? visit.say('/suppressions', allowed(given)) : show(visit, errors)
    }
    return add(visit, given)
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

export const suppressionPlaces = [fresh, download, list]
