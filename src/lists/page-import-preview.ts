// What an import would do, before it is done: its counts, the rows that are wrong, and the first contacts as they would
// be.
import { html } from 'hono/html'
import { isNameIn } from '../base/one-of.ts'
import { badge, count, table, tile, type Html } from '../webui/widgets.ts'
import { statusWord } from '../campaigns/page-words.ts'
import type { ImportSums } from './page-import-run.ts'
import { tooWrong, type RowError } from './import.ts'
import { PRESETS } from './programs.ts'
import type { HeldContacts } from './upload.ts'
import { standingsOf } from './words.ts'

/** The most lines that a page names, and the first contacts that it shows. */
const MAX_NAMED = 10
const SHOWN = 5

/** The lines that are left out, each with its reason. */
export const named = (problems: readonly RowError[], most = MAX_NAMED): Html =>
  html`<ul>
    ${problems.slice(0, most).map(({ line, reason }) => html`<li>line ${line}: ${reason}</li>`)}
    ${problems.length > most ? html`<li>and ${count(problems.length - most)} more</li>` : ''}
  </ul>`

/** Status columns that were left out: who left elsewhere would be subscribed. */
function forgotten({ columns, file }: HeldContacts): string[] {
  const chosen = new Set(columns.standings.columns.map(({ index }) => index))
  return standingsOf(columns.titles, file)
    .columns.filter(({ index }) => !columns.headless && !chosen.has(index))
    .map(({ title }) => `“${title}” says who left, and is not used: who left there would be subscribed here.`)
}

/** A warning for an export that does not say who left. */
const silence = ({ columns: { standings } }: HeldContacts, from: string): string[] =>
  standings.columns.length === 0 && standings.whole === 'subscribed' && isNameIn(PRESETS, from)
    ? [PRESETS[from].silent]
    : []

/** More than a tenth of the rows in error: the command stops here, and a page asks. */
const doubted = (list: HeldContacts): string[] =>
  tooWrong(list)
    ? [
        `${count(list.failed)} of the ${count(list.rows)} rows are in error, more than a tenth. Nothing is imported yet: go back to the columns, or import the others alone.`,
      ]
    : []

export function previewOf(list: HeldContacts, would: ImportSums, from: string): Html {
  const { errors, failed, items, rows } = list
  const unconfirmed = items.filter(({ item }) => item.standing === 'unconfirmed').length
  const twice = rows - items.length - failed
  const same = would.skipped - would.refused_count - unconfirmed
  const refused = failed + would.refused_count
  const warnings = [...doubted(list), ...forgotten(list), ...silence(list, from)]
  const tiles: readonly (readonly [label: string, sum: number, note?: string])[] = [
    ['New', would.created],
    ['Updated', would.updated],
    ['Kept as left', would.unsubscribed],
    ['Suppressed', would.suppressed, 'blocked, bounced or complained'],
    ['Unchanged', Math.max(same, 0), 'there already'],
    ['Never confirmed', unconfirmed, 'left out'],
    ['Twice in the file', twice, 'the first one counts'],
    ['Refused', refused],
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
        : html`<h2>Refused lines</h2>
            <p class="soft">After the import they can be had as a file, each with its reason.</p>
            ${named(errors)}`
    }
    <h2>The first contacts</h2>
    ${table(
      'The first contacts',
      ['Email address', 'Name', { title: 'Status', kind: 'status' }, { title: 'Fields', width: 40 }],
      items.slice(0, SHOWN).map(({ item }) => [
        item.email,
        item.name ?? '',
        badge(statusWord(item.standing)),
        Object.entries(item.custom_fields ?? {})
          .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
          .join(', ')
          .slice(0, 200),
      ]),
      'No line of the file can be imported.',
    )}`
}
