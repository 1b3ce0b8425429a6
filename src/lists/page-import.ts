// Contacts from a CSV file: what the file holds is shown first, and then brought in through the API. The code of
// "postrider contacts import" says what titles and words mean, and who has left (D71, D127).
import { html } from 'hono/html'
import { OperatorError } from '../base/errors.ts'
import type { BroughtContact } from '../campaigns/import-with-status.ts'
import { listImports } from './api.ts'
import { columnsOf, contactOf, type Columns } from './import-columns.ts'
import { STANDINGS } from '../campaigns/standing.ts'
import { tableApart } from '../webui/apart.ts'
import { form } from '../webui/forms.ts'
import { counted, badge, count, table, type Html } from '../webui/widgets.ts'
import type { Form } from '../webui/place.ts'
import { number, objects, thingOf, type Visit } from '../webui/visit.ts'

const MAX_FILE = 5 * 1024 * 1024
/** Contacts in one request to the API. */
const AT_ONCE = 500
/** The most lines that a page names. */
const MAX_NAMED = 10

const COUNTS = ['created', 'updated', 'unsubscribed', 'suppressed', 'skipped'] as const

export type Imported = Record<(typeof COUNTS)[number], number> & { problems: { line: number; reason: string }[] }

export interface Reading {
  /** The name of the file: some programs say there what the list is (D71). */
  file: string
  source: string
  columns: Columns
  rows: string[][]
  contacts: { line: number; contact: BroughtContact }[]
  problems: { line: number; reason: string }[]
}

/** Reads a file; gives a sentence when the file cannot be used. */
export async function readingOf(given: Form): Promise<Reading | string> {
  const file = given.file('file')
  const held = given.get('held')
  if (!file && held === '') return 'Choose a file.'
  if (file && file.size > MAX_FILE) return 'The file has more than 5 MB; "postrider contacts import" takes larger ones.'
  const read = await tableApart(file ? new Uint8Array(await file.arrayBuffer()) : new TextEncoder().encode(held))
  if (typeof read === 'string') return read
  const name = file ? file.name : given.get('held_name')
  try {
    const columns = columnsOf({ name: 'The file', file: name }, read.titles, { map: new Map(), page: true })
    const lines = columns.headless ? [1, ...read.lines] : read.lines
    const rows = columns.headless ? [read.titles, ...read.rows] : read.rows
    const reading: Reading = { file: name, source: read.source, columns, rows, contacts: [], problems: [] }
    for (const [at, row] of rows.entries()) {
      const contact = contactOf(row, columns)
      const line = lines[at]!
      if ('reason' in contact) reading.problems.push({ line, reason: contact.reason })
      else reading.contacts.push({ line, contact })
    }
    return reading
  } catch (thrown) {
    if (thrown instanceof OperatorError) return thrown.message
    throw thrown
  }
}

/** The lines that are left out, each with its reason. */
export const named = (problems: Imported['problems'], most = MAX_NAMED): Html =>
  html`<ul>
    ${problems.slice(0, most).map(({ line, reason }) => html`<li>line ${line}: ${reason}</li>`)}
    ${problems.length > most ? html`<li>and ${count(problems.length - most)} more</li>` : ''}
  </ul>`

const USES = {
  subscribed: 'will be subscribed',
  unconfirmed: 'never confirmed that they want mail, and will be left out',
  unsubscribed: 'unsubscribed, and will be kept as unsubscribed',
  blocked: 'are blocked, and will be suppressed',
  bounced: 'bounced, and will be suppressed',
  complained: 'complained, and will be suppressed',
} as const

export function preview(visit: Visit, { columns, contacts, file, problems, rows, source }: Reading): Html {
  const status = new Set(columns.standings.columns.map(({ index }) => index))
  const use = (at: number): string =>
    at === columns.email
      ? 'address'
      : status.has(at)
        ? 'status'
        : [
            ...(columns.names.includes(at) ? ['name'] : []),
            ...(columns.fields[at] === undefined ? [] : [`field {{${columns.fields[at]}}}`]),
          ].join(', ') || 'left out'
  const sums = STANDINGS.map((standing) => ({
    standing,
    sum: contacts.filter(({ contact }) => contact.standing === standing).length,
  })).filter(({ sum }) => sum > 0)
  return html`<section class="alert">
    <h2>What is in the file</h2>
    <p>${counted(rows.length, 'row')}.</p>
    <ul>
      ${sums.map(({ standing, sum }) => html`<li>${count(sum)} ${USES[standing]}</li>`)}
    </ul>
    ${
      problems.length === 0
        ? ''
        : html`<p>
              ${badge('warn')} ${problems.length === 1 ? 'One row is' : `${count(problems.length)} rows are`} wrong and
              will be left out:
            </p>
            ${named(problems)}`
    }
    <p>The first five:</p>
    ${table(
      'Preview',
      columns.titles.map((title, at) => `${columns.headless ? 'first column' : title} → ${use(at)}`),
      rows.slice(0, 5).map((row) => columns.titles.map((_, at) => row[at] ?? '')),
      'No rows.',
    )}
    ${form(visit, 'import', html`<input type="hidden" name="held_name" value="${file}" /><textarea class="hidden" name="held" aria-hidden="true" tabindex="-1">${`\n${source}`}</textarea><button>Import ${counted(contacts.length, 'row')}</button>`)}
  </section>`
}

export async function bring(visit: Visit, id: string, { contacts, problems }: Reading): Promise<Imported> {
  const result: Imported = {
    created: 0,
    updated: 0,
    unsubscribed: 0,
    suppressed: 0,
    skipped: problems.length,
    problems: [...problems],
  }
  for (let from = 0; from < contacts.length; from += AT_ONCE) {
    const lot = contacts.slice(from, from + AT_ONCE)
    const answer = await visit.ask('POST', `/audiences/${id}/list-imports`, {
      type: 'contacts',
      attributes: { contacts: lot.map(({ contact }) => contact) },
    })
    if (!answer.one) {
      result.problems.push(...answer.errors.map(({ detail }) => ({ line: lot[0]!.line, reason: detail })))
      break
    }
    const made = thingOf(listImports, answer.one)
    for (const name of COUNTS) result[name] += number(made, name)
    for (const { detail, email, index } of objects(made, 'errors'))
      result.problems.push({ line: lot[index]!.line, reason: `“${email}” ${detail}` })
  }
  return result
}
