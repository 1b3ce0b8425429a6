// The preview of an import: its counts, the invalid rows, and the first contacts.
import { html } from 'hono/html'
import { isNameIn } from '../base/one-of.ts'
import { badge, count, counted, table, tile, type Html } from '../views/html/widgets.ts'
import { statusWord } from '../campaigns/page-words.ts'
import type { ImportSums } from './page-import-run.ts'
import { tooWrong, type RowError } from './import.ts'
import { PRESETS } from './programs.ts'
import type { HeldContacts } from './upload.ts'
import { standingsOf } from './words.ts'

/** The maximum number of listed lines on a page, and of displayed contacts. */
const MAX_NAMED = 10
const SHOWN = 5

/** The skipped lines, each with its reason. */
export const named = (problems: readonly RowError[], most = MAX_NAMED): Html =>
  html`<ul>
    ${problems.slice(0, most).map(({ line, reason }) => html`<li>Line ${line}: ${reason}</li>`)}
    ${problems.length > most ? html`<li>and ${count(problems.length - most)} more</li>` : ''}
  </ul>`

/** Returns warnings for skipped status columns: unsubscribed contacts would be subscribed. */
function forgotten({ columns, file }: HeldContacts): string[] {
  const chosen = new Set(columns.standings.columns.map(({ index }) => index))
  return standingsOf(columns.titles, file)
    .columns.filter(({ index }) => !columns.headless && !chosen.has(index))
    .map(
      ({ title }) =>
        `Column “${title}” looks like a subscription status but is not used. People who unsubscribed there would be subscribed here.`,
    )
}

/** Returns a warning for an export without unsubscribed contacts. */
const silence = ({ columns: { standings } }: HeldContacts, from: string): string[] =>
  standings.columns.length === 0 && standings.whole === 'subscribed' && isNameIn(PRESETS, from)
    ? [PRESETS[from].silent]
    : []

/** More than a tenth of the rows have errors: the command rejects this, and a page requires a confirmation. */
const doubted = (list: HeldContacts): string[] =>
  tooWrong(list)
    ? [
        `${count(list.failed)} of ${counted(list.rows, 'row')} ${list.failed === 1 ? 'is' : 'are'} invalid, more than 10%. Nothing is imported yet. Go back to correct the columns, or import only the valid rows.`,
      ]
    : []

export function previewOf(list: HeldContacts, would: ImportSums, from: string): Html {
  const { errors, failed, items, rows } = list
  const unconfirmed = items.filter(({ item }) => item.status === 'unconfirmed').length
  const twice = rows - items.length - failed
  const same = would.skipped - would.rejected_count - unconfirmed
  const refused = failed + would.rejected_count
  const warnings = [...doubted(list), ...forgotten(list), ...silence(list, from)]
  const tiles: readonly (readonly [label: string, sum: number, note?: string])[] = [
    ['New', would.created],
    ['Updated', would.updated],
    ['Kept as unsubscribed', would.unsubscribed],
    ['Suppressed', would.suppressed, 'blocked, bounced or complained'],
    ['Unchanged', Math.max(same, 0), 'already in the audience'],
    ['Unconfirmed', unconfirmed, 'skipped'],
    ['Duplicates', twice, 'the first row is used'],
    ['Rejected', refused],
  ]
  return html`<div class="tiles">
      ${tiles
        .filter(([label, sum]) => sum > 0 || label === 'New' || label === 'Updated')
        .map(([label, sum, note]) =>
          tile(label, count(sum), note === undefined ? {} : { note: html`<span class="soft">${note}</span>` }),
        )}
    </div>
    ${warnings.map((words) => html`<p class="alert">${words}</p>`)}
    ${
      errors.length === 0
        ? ''
        : html`<h2>Rejected rows</h2>
            <p class="soft">After the import you can download them with the reasons.</p>
            ${named(errors)}`
    }
    <h2>Preview</h2>
    ${table(
      'Preview',
      ['Email address', 'Name', { title: 'Status', kind: 'status' }, { title: 'Fields', width: 40 }],
      items.slice(0, SHOWN).map(({ item }) => [
        item.email,
        item.name ?? '',
        badge(statusWord(item.status)),
        Object.entries(item.custom_fields ?? {})
          .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
          .join(', ')
          .slice(0, 200),
      ]),
      'The file has no rows that can be imported.',
    )}`
}
