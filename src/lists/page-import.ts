// Lists from a file, in the console. Of people: what the file holds is shown first, and then brought in through the
// API. The code of the commands says what titles and words mean, and who has left (D71, D127).
import { html } from 'hono/html'
import { listImports } from './api-contacts.ts'
import { isNameIn } from '../base/one-of.ts'
import { STANDINGS } from '../campaigns/import-with-status.ts'
import { field, form } from '../webui/forms.ts'
import { counted, badge, count, table, type Html } from '../webui/widgets.ts'
import type { Form } from '../webui/place.ts'
import { number, objects, thingOf, type Visit } from '../webui/visit.ts'
import { contactsApart, uploadIn } from './apart.ts'
import type { RowError } from './import.ts'
import { PRESETS } from './programs.ts'
import type { HeldContacts } from './upload.ts'

/** Contacts in one request to the API. */
const AT_ONCE = 500
/** The most lines that a page names. */
const MAX_NAMED = 10

const COUNTS = ['created', 'updated', 'unsubscribed', 'suppressed', 'skipped'] as const

export type PageImport = Record<(typeof COUNTS)[number], number> & { problems: RowError[] }

export interface PageReading {
  list: HeldContacts
  /** The program that wrote the file. */
  from: string
}

/** Reads a file; gives a sentence when the file cannot be used. */
export async function readingOf(given: Form): Promise<PageReading | string> {
  const upload = await uploadIn(given)
  if (typeof upload === 'string') return upload
  const from = given.get('from')
  const preset = isNameIn(PRESETS, from) ? PRESETS[from] : undefined
  const list = await contactsApart(upload, { preset, map: new Map(), page: true })
  return typeof list === 'string' ? list : { list, from }
}

/** Whose export a file is; the titles of most programs need no answer. */
export const programField = (names: readonly string[], value = ''): Html =>
  field({
    name: 'from',
    label: 'Exported by',
    options: [['', 'any program'], ...names.map((name) => [name, name] as const)],
    value,
  })

/** The lines that are left out, each with its reason. */
export const named = (problems: PageImport['problems'], most = MAX_NAMED): Html =>
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

export function preview(visit: Visit, { from, list }: PageReading): Html {
  const { columns, errors, file, head, items, rows, text } = list
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
    sum: items.filter(({ item }) => item.standing === standing).length,
  })).filter(({ sum }) => sum > 0)
  const wrong = errors.length === 1 ? 'One row is' : `${count(errors.length)} rows are`
  return html`<section class="alert">
    <h2>What is in the file</h2>
    <p>${counted(rows, 'row')}.</p>
    <ul>
      ${sums.map(({ standing, sum }) => html`<li>${count(sum)} ${USES[standing]}</li>`)}
    </ul>
    ${
      errors.length === 0
        ? ''
        : html`<p>${badge('warn')} ${wrong} wrong and will be left out:</p>
            ${named(errors)}`
    }
    <p>The first five:</p>
    ${table(
      'Preview',
      columns.titles.map((title, at) => `${columns.headless ? 'first column' : title} → ${use(at)}`),
      head.map((row) => columns.titles.map((_, at) => row[at] ?? '')),
      'No rows.',
    )}
    ${form(visit, 'import', html`<input type="hidden" name="from" value="${from}" /><input type="hidden" name="held_name" value="${file}" /><textarea class="hidden" name="held" aria-hidden="true" tabindex="-1">${`\n${text}`}</textarea><button>Import ${counted(items.length, 'row')}</button>`)}
  </section>`
}

export async function sendContacts(visit: Visit, id: string, { list }: PageReading): Promise<PageImport> {
  const { errors, items, rows } = list
  const skipped = rows - items.length
  const result: PageImport = { created: 0, updated: 0, unsubscribed: 0, suppressed: 0, skipped, problems: [...errors] }
  for (let from = 0; from < items.length; from += AT_ONCE) {
    const lot = items.slice(from, from + AT_ONCE)
    const answer = await visit.ask('POST', `/audiences/${id}/list-imports`, {
      type: 'contacts',
      attributes: { contacts: lot.map(({ item }) => item) },
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
