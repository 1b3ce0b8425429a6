// Actions on the selected rows of a list: a checkbox in each row, and a bar with the actions. Each row is a request to
// the API, and the page lists the rows that the API refused. Without scripts, the bar is a form below the table.
import { html } from 'hono/html'
import type { Resource } from '../jsonapi/resource.ts'
import { pathTo, requestOf, type ActionView } from './actions.ts'
import { form } from './html/forms.ts'
import type { Form } from './html/place.ts'
import { questionPage } from './html/question.ts'
import type { Answer, Thing, Visit } from './html/visit.ts'
import { count, counted, hereWith, type Html, type TableOptions } from './html/widgets.ts'

/** The maximum number of rows of one form: those of a page. */
const MOST = 50

interface BulkAction {
  /** The label before the number of rows: "Retry 12". */
  label: string
  /** The result before the number of rows: "Retried 12 emails." */
  said: string
  /** The request to the API for one row, a DELETE by default. */
  ask?: Extract<ActionView<Resource>['ask'], string | object>
  /** The consequence, which the user confirms. */
  confirm?: string
  danger?: true
}

export interface Bulk<R extends Resource> {
  of: R
  /** The name of a row. */
  named: (one: Thing<R>) => string
  /** The word for a row: "email". */
  noun: string
  actions: Readonly<Record<string, BulkAction>>
  /** The path of the API's list, if the page shows only a part of the resource: other rows are refused. */
  list?: string
  /** The path of the download, which takes the selected rows as `ids`. */
  file?: string
}

const box = (id: string, name: string): Html =>
  html`<label
    ><input type="checkbox" form="bulk" name="row" value="${id} ${name}" aria-label="Select ${name}"
  /></label>`

/** The checkboxes of the rows, and the bar with the actions. Both are empty if the user cannot change anything. */
export function selectable<R extends Resource>(
  visit: Visit,
  bulk: Bulk<R> | undefined,
  rows: readonly Thing<R>[],
): { boxes: TableOptions; bar: Html | '' } {
  if (visit.reading || !bulk || rows.length === 0) return { boxes: {}, bar: '' }
  const { actions, file, named } = bulk
  const buttons = { ...actions, ...(file !== undefined && { export: { label: 'Export', said: '' } }) }
  const bar = html`<div class="panel row bulk" role="group" aria-label="Selected rows">
    <label><input type="checkbox" data-all /> All on this page</label>
    ${form(visit, 'bulk', html`<input type="hidden" name="sure" />`, { id: 'bulk' })}
    ${Object.entries<BulkAction>(buttons).map(
      ([name, { confirm, danger, label }]) =>
        html`<button
          class="${danger ? 'danger' : 'plain'}"
          form="bulk"
          name="bulk"
          value="${name}"
          ${confirm === undefined ? '' : html`data-question="${confirm}"`}
        >
          ${label} <span data-chosen>selected</span>
        </button>`,
    )}
  </div>`
  return { boxes: { boxes: rows.map((one) => box(one.id, named(one))) }, bar }
}

/** Performs an action on the selected rows. `again` shows the page with errors. */
export async function performBulk<R extends Resource>(
  visit: Visit,
  { actions, file, list, noun, of }: Bulk<R>,
  given: Form,
  again: (errors: Answer['errors']) => Response | Promise<Response>,
): Promise<Response> {
  const refused = (...sentences: string[]) =>
    again(sentences.map((detail) => ({ detail, code: 'invalid', field: undefined })))
  const nouns = noun.replace(/s?$/, (end) => `${end === '' ? '' : 'se'}s`)
  const rows = [...new Set(given.all('row'))].map((row) => row.split(/ (.*)/s, 2) as [id: string, name?: string])
  if (rows.length === 0) return refused(`Select at least one ${noun}.`)
  if (rows.length > MOST) return refused(`Select at most ${MOST} ${nouns} at a time.`)
  const name = given.get('bulk')
  if (name === 'export' && file !== undefined)
    return visit.context.redirect(`${file}?ids=${rows.map(([id]) => encodeURIComponent(id)).join(',')}`, 303)
  const action = Object.hasOwn(actions, name) ? actions[name] : undefined
  if (!action) return refused('This action is not available.')
  const all = counted(rows.length, noun, nouns)
  if (action.confirm !== undefined && given.get('sure') !== 'yes')
    return questionPage(visit, given, `${action.label} ${all}? ${action.confirm}`)
  const chosen = `page%5Bsize%5D=${MOST}&filter%5Bid%5D=${encodeURIComponent(rows.map(([id]) => id).join(','))}`
  const listed = list === undefined ? undefined : (await visit.get(of, `${list}?${chosen}`)).many.map(({ id }) => id)
  const failed = new Map<string, string[]>()
  for (const [id, words = id] of rows) {
    const one = { type: of.type, id } as Thing<R>
    const { document, method, path } = requestOf(action, { one, given, path: pathTo(of, id) })
    const here = listed?.includes(id) ?? true
    const [why] = here ? (await visit.ask(method, path, document)).errors : [{ detail: 'It is not in this list.' }]
    if (why) failed.set(why.detail, [...(failed.get(why.detail) ?? []), words])
  }
  if (failed.size === 0) return visit.say(hereWith(visit, {}), `${action.said} ${all}.`)
  const done = rows.length - [...failed.values()].flat().length
  const reasons = [...failed].map(([why, names]) => `${names.join(', ')}: ${why}`)
  return refused(`${action.said} ${count(done)} of ${all}.`, ...reasons)
}
