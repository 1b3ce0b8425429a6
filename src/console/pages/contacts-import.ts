// Contacts from a CSV file: what the file holds is shown first, and then brought in through the API.
import { html } from 'hono/html'
import { parseAddress } from '../../message/address.ts'
import { readTable, type Sheet } from '../csv.ts'
import { form } from '../forms.ts'
import { counted, badge, count, table, type Html } from '../parts.ts'
import type { Form } from '../place.ts'
import { number, type Visit } from '../visit.ts'

const MAX_FILE = 5 * 1024 * 1024
/** Contacts in one request to the API. */
const AT_ONCE = 500

/** The result of an import. */
export interface Imported {
  created: number
  skipped: number
  problems: { line: number; reason: string }[]
}

/** The most rows without a valid address that the preview names. */
const MAX_NAMED = 10
const STATUS = /^(?:status|subscription[ _]?status|email_blacklist|unsubscribed|optin.*status)$/i

export interface Reading {
  email: number
  name: number
  sheet: Sheet
}

/** Reads a file; gives a sentence when the file cannot be used. */
export async function readingOf(given: Form): Promise<Reading | string> {
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
  if (email < 0)
    return `The first line of the file has to hold titles, and one of them is "email". It holds: ${read.titles.slice(0, 10).join(', ')}.`
  return { email, name: at(/^(?:full[ _]?)?name$/i), sheet: read }
}

export function preview(visit: Visit, { email, name, sheet }: Reading): Html {
  const bad = sheet.rows.flatMap((row, at) => {
    const said = (row[email] ?? '').trim()
    return parseAddress(said) ? [] : [{ line: sheet.lines[at]!, said }]
  })
  const wide = sheet.rows.flatMap((row, at) => (row.length > sheet.titles.length ? [sheet.lines[at]!] : []))
  const uses = sheet.titles.map((title, at) => (at === email ? 'address' : at === name ? 'name' : `field {{${title}}}`))
  return html`<section class="alert">
    <h2>What is in the file</h2>
    <p>${counted(sheet.rows.length, 'row')}.</p>
    ${
      bad.length === 0
        ? ''
        : html`<p>
            ${badge('warn')} ${bad.length === 1 ? 'One row has' : `${count(bad.length)} rows have`} no valid address and
            will be left out: ${bad.slice(0, MAX_NAMED).map(({ line, said }) => html`line ${line} (“${said}”) `)}
            ${bad.length > MAX_NAMED ? html`and ${count(bad.length - MAX_NAMED)} more.` : ''}
          </p>`
    }
    ${
      wide.length === 0
        ? ''
        : html`<p>
            ${badge('warn')} These lines have more cells than titles, and the cells at their end are left out:
            ${wide.slice(0, MAX_NAMED).join(', ')}${wide.length > MAX_NAMED ? ` and ${count(wide.length - MAX_NAMED)} more` : ''}.
          </p>`
    }
    <p>The first five:</p>
    ${table(
      'Preview',
      sheet.titles.map((title, at) => `${title} → ${uses[at]!}`),
      sheet.rows.slice(0, 5).map((row) => sheet.titles.map((_, at) => row[at] ?? '')),
      'No rows.',
    )}
    ${form(visit, 'import', html`<textarea class="hidden" name="held" aria-hidden="true" tabindex="-1">${`\n${sheet.source}`}</textarea><button>Import ${counted(sheet.rows.length - bad.length, 'row')}</button>`)}
  </section>`
}

export async function bring(visit: Visit, id: string, { email, name, sheet }: Reading): Promise<Imported> {
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
      result.problems.push(...answer.errors.map(({ detail }) => ({ line: sheet.lines[from]!, reason: detail })))
      break
    }
    result.created += number(answer.one, 'created')
    result.skipped += number(answer.one, 'skipped')
    const errors = (answer.one.attributes['errors'] ?? []) as { index?: number; email?: string; detail?: string }[]
    for (const { detail, email: given, index } of errors)
      result.problems.push({
        line: sheet.lines[from + (index ?? 0)]!,
        reason: `“${given ?? ''}” ${detail?.replace(/^email: /, '') ?? ''}`,
      })
  }
  return result
}
