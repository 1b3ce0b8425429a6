// Suppressions: addresses that a domain does not send to, with reason and date. They are added manually or from a file.
import { isNameIn, isOneOf, namesIn } from '../base/one-of.ts'
import { iso } from '../base/clock.ts'
import { html } from 'hono/html'
import { page } from '../views/html/frame.ts'
import { field, fieldMaker, form, type FormField } from '../views/html/forms.ts'
import { badge, count, time, type Cell, type Html } from '../views/html/widgets.ts'
import { suppressionImports } from './api.ts'
import { reasonWord } from '../campaigns/page-words.ts'
import { suppressions } from '../suppressions/api.ts'
import type { Form, Place } from '../views/html/place.ts'
import { number, text, thingOf, type Answer, type Thing, type Visit } from '../views/html/visit.ts'
import { chosenIn, csv } from '../views/html/csv.ts'
import { actionButton, type Actions } from '../views/actions.ts'
import type { Bulk } from '../views/bulk.ts'
import type { ListView } from '../views/list.ts'
import { listPlaces, showList, type ResourceList } from '../views/pages.ts'
import { relatedName } from '../views/table.ts'
import { suppressionsApart, uploadIn } from './apart.ts'
import type { RowError } from './import.ts'
import { programField } from './page-import.ts'
import { named } from './page-import-preview.ts'
import { SUPPRESSORS } from './programs.ts'

const LABELS = { domain: 'Sending domain', emails: 'Addresses, one per line' } as const
const REASONS = ['manual', 'list_import', 'unsubscribe', 'hard_bounce', 'complaint'] as const
/** Reasons that only an operator can remove, with the warning about it. */
const PERMANENT: Readonly<Record<string, string>> = {
  hard_bounce: 'The receiving server reported that the address does not exist',
  complaint: 'The recipient marked your email as spam',
}
/** Rows per request, which is the API's limit. */
const AT_ONCE = 1000

type SuppressionShown = Thing<typeof suppressions>

/** The address of an entry. An erased recipient is stored as a hash, which is not shown. */
function personIn(entry: SuppressionShown): Cell {
  const email = text(entry, 'email')
  if (!email.startsWith('#')) return email
  // An entry that the erasure made, or changed.
  const known = text(entry, 'reason') === 'manual' || text(entry, 'updated_at') > text(entry, 'created_at')
  return known ? html`Erased recipient (${time(entry.attributes.updated_at)})` : 'Erased recipient'
}

const whoIn = ({ attributes: { email } }: SuppressionShown): string =>
  !email || email.startsWith('#') ? 'This recipient' : email

const allowed = (_: SuppressionShown, given: Form): string =>
  `${given.get('who').slice(0, 320)} can receive your email again.`

const ACTIONS: Actions<typeof suppressions> = {
  remove: {
    label: 'Reactivate',
    when: (entry) => PERMANENT[text(entry, 'reason')] === undefined,
    confirm: (entry) => `${whoIn(entry)} can receive your email again.`,
    said: allowed,
  },
  release: {
    label: 'Reactivate',
    when: (entry, { operator }) => operator && PERMANENT[text(entry, 'reason')] !== undefined,
    confirm: (entry) =>
      `${whoIn(entry)} can receive your email again. ${PERMANENT[text(entry, 'reason')]}. Sending to this address again can harm your reputation.`,
    ask: 'release',
    said: allowed,
  },
}

/** A signed-in operator can reactivate addresses with any reason. */
const bulkOf = ({ operator }: Visit): Bulk<typeof suppressions> => ({
  of: suppressions,
  named: whoIn,
  noun: 'address',
  file: '/suppressions/export.csv',
  actions: {
    reactivate: {
      label: 'Reactivate',
      said: 'Reactivated',
      confirm: 'They can receive your email again. Sending to addresses that bounced can harm your reputation.',
      ...(operator && { ask: 'release' }),
    },
  },
})

const FILTERS = ['unsubscribe', 'hard_bounce', 'complaint', 'manual', 'list_import'] as const

const capital = (words: string): string => words.slice(0, 1).toUpperCase() + words.slice(1)

const listView = (visit: Visit): ListView<typeof suppressions> => ({
  of: suppressions,
  from: '/suppressions?include=domain',
  caption: 'Suppressions',
  search: 'Search addresses',
  tabs: {
    label: 'Reason',
    name: 'reason',
    options: [{ value: '', name: 'All' }, ...FILTERS.map((value) => ({ value, name: capital(reasonWord(value)) }))],
  },
  columns: (answer) => [
    {
      title: 'Address',
      sort: 'email',
      of: (each) =>
        html`${personIn(each)}
        ${each.attributes.expires_at === null ? '' : html`<span class="why"><span>until ${time(each.attributes.expires_at)}</span></span>`}`,
    },
    { title: 'Reason', kind: 'status', of: (each) => badge(reasonWord(text(each, 'reason'))) },
    {
      title: 'Scope',
      width: 10,
      of: (each) => (text(each, 'scope') === 'all' ? 'all email' : 'campaigns'),
    },
    { title: 'Domain', width: 15, wide: true, of: relatedName(answer, 'domain') },
    { title: 'Since', kind: 'time', of: 'created_at' },
    {
      title: '',
      kind: 'action',
      of: (each) =>
        html`${['remove', 'release'].map((name) => actionButton(visit, ACTIONS, name, each, { fields: { who: whoIn(each) } }))}`,
    },
  ],
  empty: 'No suppressions. Bounces and complaints are added automatically.',
  noMatch: 'No addresses match.',
})

/** Explains how to handle a valid address that was suppressed. */
const mistaken = ({ visit: { operator } }: { visit: Visit }): Html =>
  html`<details>
    <summary>Reactivate an address</summary>
    <p>
      Bounces and complaints stay suppressed, because sending to these addresses again harms your reputation.
      ${
        operator
          ? 'Reactivate an address only if it works now, or if its owner asks for your email.'
          : 'If an address works now, or if its owner asks for your email, the operator of this server can reactivate it.'
      }
    </p>
  </details>`

const suppressionList: ResourceList<typeof suppressions, typeof suppressions> = {
  path: '/suppressions',
  title: 'Suppressions',
  about: 'Addresses that your domains do not send to, with the reasons.',
  add: { label: 'Add addresses', domain: true },
  actions: ACTIONS,
  bulk: bulkOf,
  head: () => html`<a class="button plain" href="/suppressions/export.csv">Export</a>`,
  list: listView,
  below: mistaken,
}

/** The form that adds addresses, empty or with the rejected input. */
async function showNew(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const options = await visit.names('/sender-domains')
  return page(visit, {
    title: 'Add addresses',
    about: `The sending domain no longer sends ${visit.rights.marketing ? 'campaigns ' : ''}to these addresses.`,
    crumbs: [['/suppressions', 'Suppressions']],
    errors,
    labels: LABELS,
    body: addition(visit, options, { errors, typed }),
  })
}

const fresh: Place = { path: '/suppressions/new', changes: true, show: (visit) => showNew(visit), act: add }

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
      ${field({ name: 'file', label: 'Or a CSV file', type: 'file', accept: '.csv,.json,text/csv,application/json', hint: 'A column "email", and optionally "reason".' })}
      ${programField(Object.keys(SUPPRESSORS), typed?.get('from') ?? '')}
      ${field({ name: 'reason', label: 'Reason', options: REASONS.map((each) => [each, reasonWord(each)] as const), value: typed?.get('reason') || 'manual' })}
      <button>Add</button>`,
    { multipart: true },
  )
}

interface Entries {
  /** The attribute of the request: typed addresses, or rows of a file with their titles. */
  attribute: 'suppressions' | 'rows'
  rows: { email: string; reason: string }[]
  skipped: number
  errors: RowError[]
}

/** The typed addresses or the entries of the file, or an error sentence. */
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
      ? 'Enter at least one address.'
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

/** The API's errors for single rows, with the address instead of the row number. */
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
    <p>${count(sums.created)} added, ${count(sums.updated)} widened in scope, ${count(sums.skipped)} skipped.</p>
    ${errors.length === 0 ? '' : named(errors, 50)}
  </div>`
  return showList(visit, suppressionList, { above: report })
}

const said = (sum: number): string => (sum === 1 ? '1 address suppressed.' : `${count(sum)} addresses suppressed.`)

const EXPORTED = ['email', 'reason', 'scope', 'created_at', 'expires_at'] as const

const download: Place = {
  path: '/suppressions/export.csv',
  show: (visit) =>
    csv(visit, 'suppressions.csv', {
      of: suppressions,
      path: `/suppressions?${chosenIn(visit)}`,
      titles: EXPORTED,
      row: (each) => EXPORTED.map((name) => text(each, name)),
    }),
}

export const suppressionPlaces = [fresh, download, ...listPlaces(suppressionList)]
