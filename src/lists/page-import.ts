// The import of contacts in the console: choose a file, map its columns, review, import. Each step is a form that
// carries the list, so no data is written before the last step and an abandoned session stores no data. Titles and
// status values are interpreted by the code of the commands (D71, D127), and the import goes through the API (D143).
import { html, raw } from 'hono/html'
import { isNameIn, isOneOf } from '../base/one-of.ts'
import { audiences } from '../campaigns/api-audiences.ts'
import { stricter, STANDINGS, type Standing } from '../campaigns/import-with-status.ts'
import { field, form } from '../views/html/forms.ts'
import { page } from '../views/html/frame.ts'
import { found, type Form, type Place } from '../views/html/place.ts'
import { counted, count, table, type Html } from '../views/html/widgets.ts'
import { text, type Answer, type Visit } from '../views/html/visit.ts'
import { contactsApart, uploadIn } from './apart.ts'
import { fieldIn, fieldUse } from './columns.ts'
import { tooWrong } from './import.ts'
import { importContactList, wouldDo } from './page-import-run.ts'
import { previewOf } from './page-import-preview.ts'
import { PRESETS } from './programs.ts'
import type { HeldContacts, StatusValue, Upload } from './upload.ts'
import { plain } from './words.ts'

/** The choices so far, which the forms carry. */
interface ImportChoice {
  from: string
  /** The use of each column. Empty in the first step. */
  uses: string[]
  /** The meanings of status values, in their normalised form. REFUSE rejects their rows. */
  words: Map<string, Standing | typeof REFUSE>
  existing: 'update' | 'keep'
  /** Why the contacts agreed, in the words of the user. */
  evidence: string
  /** Whether to import the valid rows although more than a tenth of all rows are invalid. */
  others: boolean
}
const REFUSE = 'refuse'

/** One step of an import. */
interface ImportStep {
  visit: Visit
  id: string
  name: string
  upload: Upload
  choice: ImportChoice
}

const WORD = 'word:'

function choiceIn(given: Form): ImportChoice {
  const uses: string[] = []
  const words: ImportChoice['words'] = new Map()
  for (const [name, value] of given.entries()) {
    if (name.startsWith('use:')) uses.push(value === 'new' ? fieldUse(given.get(`new:${name.slice(4)}`).trim()) : value)
    if (name.startsWith(WORD) && (value === REFUSE || isOneOf(STANDINGS, value)))
      words.set(name.slice(WORD.length), value)
  }
  const existing = given.get('existing') === 'keep' ? 'keep' : 'update'
  return {
    from: given.get('from'),
    uses,
    words,
    existing,
    evidence: given.get('evidence').trim(),
    others: given.get('others') === 'yes',
  }
}

/** The options for reading the list. */
const wishesOf = ({ from, uses, words }: ImportChoice) => ({
  map: new Map<string, string[]>(),
  page: true as const,
  preset: isNameIn(PRESETS, from) ? PRESETS[from] : undefined,
  ...(uses.length === 0 ? {} : { uses }),
  words: new Map([...words].flatMap(([word, means]) => (means === REFUSE ? [] : [[word, means] as const]))),
})

const hidden = (name: string, value: string): Html => html`<input type="hidden" name="${name}" value="${value}" />`

/**
 * The list in a form. Browsers drop the first line end of a text area. The form must be multipart: URL-encoded, a
 * non-ASCII letter takes three times its bytes, and the form would be rejected.
 */
const heldText = (escaped: string): Html =>
  html`<textarea class="hidden" name="held" aria-hidden="true" tabindex="-1">${raw(`\n${escaped}`)}</textarea>`

/** The fields that carry the list and the choices to the next step. */
const carried = ({ choice, upload }: ImportStep, escaped: string, chosen: boolean): Html => {
  const { evidence, existing, from, uses, words } = choice
  const more: [string, string][] = [
    ['existing', existing],
    ['evidence', evidence],
    ...uses.map((use, at): [string, string] => [`use:${at}`, use]),
    ...[...words].map(([word, means]): [string, string] => [`${WORD}${word}`, means]),
  ]
  return html`${hidden('from', from)}${hidden('held_name', upload.file)}${heldText(escaped)}${(chosen ? more : []).map(([name, value]) => hidden(name, value))}`
}

const STEPS = { 1: 'choose a file', 2: 'map the columns', 3: 'review' } as const

/** A page of the import, with the number of its step. */
const stepPage = (
  visit: Visit,
  { id, name, step, ...shown }: { id: string; name: string; step: 1 | 2 | 3; body: Html; errors?: Answer['errors'] },
): Response | Promise<Response> =>
  page(visit, {
    title: 'Import contacts',
    about: `Step ${step} of 3: ${STEPS[step]}.`,
    crumbs: [
      ['/audiences', 'Audiences'],
      [`/audiences/${id}`, name],
    ],
    ...shown,
  })

/** The field for the service that exported a file. Most services are detected by their column titles. */
export const programField = (names: readonly string[], value = ''): Html =>
  field({
    name: 'from',
    label: 'Exported from',
    options: [['', 'Detect automatically'], ...names.map((name) => [name, name] as const)],
    value,
  })

const refusal = (detail: string): Answer['errors'] => [{ code: 'invalid', field: undefined, detail }]

/** The first step: a file, or lines to paste. */
const showFile = (
  visit: Visit,
  { id, name, ...shown }: { id: string; name: string; errors?: Answer['errors']; typed?: Form },
): Response | Promise<Response> =>
  stepPage(visit, {
    id,
    name,
    step: 1,
    ...(shown.errors ? { errors: shown.errors } : {}),
    body: html`${form(
      visit,
      'columns',
      html`${field({ name: 'file', label: 'File', type: 'file', accept: '.csv,.tsv,.txt,.json,text/csv,text/tab-separated-values,application/json', hint: 'CSV or JSON, up to 5 MB. The first line contains the column names.' })}
        ${field({ name: 'pasted', label: 'Or paste rows', lines: 6, value: shown.typed?.get('pasted') ?? '', hint: 'Lines of a CSV file, cells of a spreadsheet, or one address per line.' })}
        ${programField(Object.keys(PRESETS), shown.typed?.get('from') ?? '')} <button>Next</button>`,
      { multipart: true, to: `/audiences/${id}/import` },
    )}`,
  })

/** The first two values of a column that are not empty. */
const samplesOf = (look: HeldContacts, at: number): string =>
  look.head
    .map((record) => (record[at] ?? '').trim())
    .filter((cell) => cell !== '')
    .slice(0, 2)
    .map((cell) => (cell.length > 60 ? `${cell.slice(0, 60)}…` : cell))
    .join(' · ')

const USES_SHOWN = [
  ['email', 'Email address'],
  ['name', 'Name'],
  ['first_name', 'First name'],
  ['last_name', 'Last name'],
  ['status', 'Status'],
  ['subscribed', 'Status (yes = subscribed)'],
  ['unsubscribed', 'Status (yes = unsubscribed)'],
] as const

/** The field for the use of a column. */
function useField(title: string, at: number, use: string): Html {
  const own = title === '' ? [] : [fieldUse(title)]
  const fields = [...new Set([...own, ...(fieldIn(use) ? [use] : [])])]
  const options = [
    ...(use === '' ? [['', 'Choose …'] as const] : []),
    ...USES_SHOWN,
    ...fields.map((each) => [each, `Field “${fieldIn(each) ?? ''}”`] as const),
    ['new', 'New field …'] as const,
    ['none', 'Skip'] as const,
  ]
  const label = title || `column ${at + 1}`
  return html`<span class="pick"
    ><select name="use:${at}" aria-label="Use of ${label}" ${use === '' ? 'required' : ''}>
      ${options.map(([value, words]) => html`<option value="${value}" ${value === use ? html`selected` : ''}>${words}</option>`)}</select
    ><input
      name="new:${at}"
      aria-label="Name of the new field for ${label}"
      placeholder="city"
      autocomplete="off"
      maxlength="200"
  /></span>`
}

export const MEANINGS: Record<Standing, string> = {
  subscribed: 'Subscribed',
  unconfirmed: 'Skip (unconfirmed)',
  unsubscribed: 'Unsubscribed',
  blocked: 'Suppress (blocked)',
  bounced: 'Suppress (bounced)',
  complained: 'Suppress (complained)',
}

/** For a value next to another status column, or in a list of unsubscribed contacts. */
const NOT_ALONE = 'Subscribed, unless marked as unsubscribed elsewhere'

/** The meaning of a status value, or a field to choose it if it is unknown. */
function meaningField({ meaning, value }: StatusValue, chosen: ImportChoice['words']): Html | string {
  if (meaning !== undefined) return MEANINGS[meaning]
  const options = [
    ['', 'Choose …'] as const,
    ...STANDINGS.map((each) => [each, MEANINGS[each]] as const),
    [REFUSE, 'Reject these rows'] as const,
  ]
  const here = chosen.get(plain(value)) ?? ''
  return html`<select name="${WORD}${plain(value)}" aria-label="Meaning of “${value || 'no value'}”" required>
    ${options.map(([each, words]) => html`<option value="${each}" ${each === here ? html`selected` : ''}>${words}</option>`)}
  </select>`
}

/** The columns, each with two examples and the field for its use. */
function columnTable(look: HeldContacts): Html {
  const { headless, titles, uses } = look.columns
  return table(
    'Columns',
    [{ title: 'Column', width: 25 }, 'Examples', { title: 'Import as', width: 40 }],
    (headless ? ['Column 1'] : titles).map((title, at) => [
      title || html`<span class="soft">no title</span>`,
      samplesOf(look, at),
      useField(headless ? '' : title, at, uses[at] ?? 'none'),
    ]),
    'The file has no columns.',
  )
}

/** The status of all contacts in a list, from its file name or from a single value in all rows. */
function standingOfAll({ columns: { standings, values }, rows }: HeldContacts): Standing {
  const [only] = values
  return stricter(standings.whole, (only?.rows === rows ? only.meaning : undefined) ?? 'subscribed')
}

/** The status values of the list and their meanings. */
function statusTable(look: HeldContacts, chosen: ImportChoice['words']): Html {
  const { standings, values } = look.columns
  const each = standingOfAll(look)
  const all =
    each === 'subscribed'
      ? html``
      : html`<p class="alert">The people in this list are not subscribed. All rows: ${MEANINGS[each]}.</p>`
  if (values.length === 0) return all
  const alone = standings.whole === 'subscribed' && values.every(({ title }) => title === values[0]?.title)
  return html`${all}
    <h2>Status</h2>
    <p class="soft">An import never resubscribes people who unsubscribed.</p>
    ${table(
      'Status values',
      ['Value', 'Column', { title: 'Rows', kind: 'figure' }, { title: 'Import as', width: 40 }],
      values.map((one) => [
        one.value || html`<span class="soft">no value</span>`,
        one.title,
        count(one.rows),
        one.meaning === 'subscribed' && !alone ? NOT_ALONE : meaningField(one, chosen),
      ]),
      '',
    )}`
}

/** The second step: the use of each column, and the meaning of each status value. */
function showColumns(
  step: ImportStep,
  look: HeldContacts,
  errors: Answer['errors'] = [],
): Response | Promise<Response> {
  const { choice, id, name, visit } = step
  const from = look.columns.program ?? choice.from
  return stepPage(visit, {
    id,
    name,
    step: 2,
    errors,
    body: html`<p>
        ${counted(look.rows, 'row')}${isNameIn(PRESETS, from) ? `, in the format of ${PRESETS[from].called}` : ''}.
      </p>
      ${form(
        visit,
        'check',
        html`${carried(step, look.escaped, false)} ${columnTable(look)} ${statusTable(look, choice.words)}
          ${field({
            name: 'existing',
            label: 'Existing contacts',
            options: [
              ['update', 'Update name and fields'],
              ['keep', 'Keep unchanged'],
            ],
            value: choice.existing,
            hint: 'Contacts that the file marks as unsubscribed are unsubscribed in both cases.',
          })}
          ${field({
            name: 'evidence',
            label: 'Proof of consent',
            value: choice.evidence,
            hint: 'Why these contacts agreed to receive your email, for example “Signed up in our shop until May 2026”. It is kept with each contact.',
          })} <button>Next</button>`,
        { to: `/audiences/${id}/import`, kind: 'wide', multipart: true },
      )}`,
  })
}

/** The second step again, or the first one with an error if the file cannot be read. */
async function toColumns(step: ImportStep, errors: Answer['errors'] = []): Promise<Response> {
  const { choice, id, name, upload, visit } = step
  const look = await contactsApart(upload, wishesOf(choice))
  if (typeof look === 'string') return showFile(visit, { id, name, errors: refusal(look) })
  const { problem } = look.columns
  return showColumns(step, look, errors.length > 0 || problem === undefined ? errors : refusal(problem))
}

const UNDECIDED = 'Choose a meaning for every status value.'
const UNNAMED = 'Enter a name for the new field.'
const UNCHOSEN = 'Choose a use for every column.'

/** If more than a tenth of the rows are invalid, the user confirms the import of the valid rows explicitly. */
const importButton = (list: HeldContacts): Html =>
  tooWrong(list)
    ? html`${hidden('others', 'yes')}<button class="plain">Import ${counted(list.items.length, 'valid row')}</button>`
    : html`<button>Import ${counted(list.items.length, 'row')}</button>`

/** The third step, or the second one again with an error. */
async function toPreview(step: ImportStep, errors: Answer['errors'] = []): Promise<Response> {
  const { choice, id, upload, visit } = step
  if (choice.uses.includes(fieldUse(''))) return toColumns(step, refusal(UNNAMED))
  if (choice.uses.includes('')) return toColumns(step, refusal(UNCHOSEN))
  const list = await contactsApart(upload, wishesOf(choice))
  if (typeof list === 'string') return toColumns(step, refusal(list))
  if (list.columns.problem !== undefined) return showColumns(step, list, refusal(list.columns.problem))
  if (list.columns.values.some(({ meaning, value }) => meaning === undefined && !choice.words.has(plain(value))))
    return showColumns(step, list, refusal(UNDECIDED))
  const would = await wouldDo(visit, id, { list, existing: choice.existing, evidence: choice.evidence })
  if ('errors' in would) return toColumns(step, would.errors)
  return stepPage(visit, {
    id,
    name: step.name,
    step: 3,
    errors,
    body: html`${previewOf(list, would, choice.from)}
      <div class="row">
        ${list.items.length === 0 ? '' : form(visit, 'import', html`${carried(step, list.escaped, true)}${importButton(list)}`, { to: `/audiences/${id}/import`, kind: 'inline', multipart: true })}
        ${form(visit, 'columns', html`${carried(step, list.escaped, true)}<button class="plain">Back to columns</button>`, { to: `/audiences/${id}/import`, kind: 'inline', multipart: true })}
      </div>`,
  })
}

async function bring(step: ImportStep): Promise<Response> {
  const { choice, id, upload, visit } = step
  const list = await contactsApart(upload, wishesOf(choice))
  if (typeof list === 'string') return toColumns(step, refusal(list))
  // The form is from an outdated page: show the preview with the reason.
  if (list.columns.problem !== undefined || list.items.length === 0 || (tooWrong(list) && !choice.others))
    return toPreview(step)
  const done = await importContactList(visit, id, { list, existing: choice.existing, evidence: choice.evidence })
  return 'errors' in done ? toPreview(step, done.errors) : visit.say(`/audiences/${id}/imports/${done.id}`, done.said)
}

export const importPlace: Place = {
  path: '/audiences/:id/import',
  changes: true,
  async show(visit) {
    const { one } = found(await visit.get(audiences, `/audiences/${visit.context.req.param('id')}`))
    return showFile(visit, { id: one.id, name: text(one, 'name') })
  },
  async act(visit, given) {
    const { one } = found(await visit.get(audiences, `/audiences/${visit.context.req.param('id')}`))
    const name = text(one, 'name')
    const upload = await uploadIn(given)
    if (typeof upload === 'string') return showFile(visit, { id: one.id, name, errors: refusal(upload), typed: given })
    const step: ImportStep = { visit, id: one.id, name, upload, choice: choiceIn(given) }
    switch (given.action) {
      case 'import':
        return bring(step)
      case 'check':
        return toPreview(step)
      default:
        return toColumns(step)
    }
  },
}
