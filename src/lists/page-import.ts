// The import of people from a file, in the console: choose a file, say what its columns are, see what would be done,
// and bring it in. Each step is a form that holds the list, so that nothing is written before the last one and a
// session that ends leaves nothing behind. The code of the commands says what titles and words mean, and who has left
// (D71, D127); the API's import writes (D143).
import { html, raw } from 'hono/html'
import { isNameIn, isOneOf } from '../base/one-of.ts'
import { audiences } from '../campaigns/api-audiences.ts'
import { graver, STANDINGS, type Standing } from '../campaigns/import-with-status.ts'
import { field, form } from '../webui/forms.ts'
import { page } from '../webui/frame.ts'
import { found, type Form, type Place } from '../webui/place.ts'
import { counted, count, table, type Html } from '../webui/widgets.ts'
import { text, type Answer, type Visit } from '../webui/visit.ts'
import { contactsApart, lookApart, uploadIn } from './apart.ts'
import { fieldIn, fieldUse } from './chosen-columns.ts'
import { tooWrong } from './import.ts'
import { bringContacts, wouldDo } from './page-import-run.ts'
import { previewOf } from './page-import-preview.ts'
import { PRESETS } from './programs.ts'
import type { HeldContacts, HeldLook, StatusValue, Upload } from './upload.ts'
import { plain } from './words.ts'

/** What was chosen so far; the forms carry it. */
interface ImportChoice {
  from: string
  /** What each column is; none yet in the first step. */
  uses: string[]
  /** What words of status columns mean, in their plain form; REFUSE: their lines are refused. */
  words: Map<string, Standing | typeof REFUSE>
  existing: 'update' | 'keep'
  /** The others are imported, though more than a tenth of the rows are in error. */
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
  return { from: given.get('from'), uses, words, existing, others: given.get('others') === 'yes' }
}

/** What the list is read with. */
const wishesOf = ({ from, uses, words }: ImportChoice) => ({
  map: new Map<string, string>(),
  page: true as const,
  preset: isNameIn(PRESETS, from) ? PRESETS[from] : undefined,
  ...(uses.length === 0 ? {} : { uses }),
  words: new Map([...words].flatMap(([word, means]) => (means === REFUSE ? [] : [[word, means] as const]))),
})

const hidden = (name: string, value: string): Html => html`<input type="hidden" name="${name}" value="${value}" />`

/**
 * The list in a form. A browser leaves out the first line end of a text area. The form must be multipart: urlencoded, a
 * letter beyond ASCII takes three times its octets, and the form would be refused.
 */
const heldText = (escaped: string): Html =>
  html`<textarea class="hidden" name="held" aria-hidden="true" tabindex="-1">${raw(`\n${escaped}`)}</textarea>`

/** The fields that carry the list to the next step, and with it what was chosen. */
const carried = ({ choice, upload }: ImportStep, escaped: string, chosen: boolean): Html => {
  const { existing, from, uses, words } = choice
  const more: [string, string][] = [
    ['existing', existing],
    ...uses.map((use, at): [string, string] => [`use:${at}`, use]),
    ...[...words].map(([word, means]): [string, string] => [`${WORD}${word}`, means]),
  ]
  return html`${hidden('from', from)}${hidden('held_name', upload.file)}${heldText(escaped)}${(chosen ? more : []).map(([name, value]) => hidden(name, value))}`
}

const STEPS = { 1: 'the file', 2: 'what its columns are', 3: 'what will be done' } as const

/** A page of the import, with the place that it has among the steps. */
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

/** Whose export a file is; the titles of most programs need no answer. */
export const programField = (names: readonly string[], value = ''): Html =>
  field({
    name: 'from',
    label: 'Exported by',
    options: [['', 'Found by its columns'], ...names.map((name) => [name, name] as const)],
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
      html`${field({ name: 'file', label: 'File', type: 'file', accept: '.csv,.tsv,.txt,.json,text/csv,text/tab-separated-values,application/json', hint: 'CSV or JSON of at most 5 MB, as any program exports it. The first line names the columns.' })}
        ${field({ name: 'pasted', label: 'Or paste lines', lines: 6, value: shown.typed?.get('pasted') ?? '', hint: 'Lines of a file, or cells of a spreadsheet; or addresses alone, one in a line.' })}
        ${programField(Object.keys(PRESETS), shown.typed?.get('from') ?? '')} <button>Next</button>`,
      { multipart: true, to: `/audiences/${id}/import` },
    )}`,
  })

/** The first two values of a column that are not empty. */
const samplesOf = (look: HeldLook, at: number): string =>
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
] as const

/** The choice of what one column is. */
function useField(title: string, at: number, use: string): Html {
  const own = title === '' ? [] : [fieldUse(title)]
  const fields = [...new Set([...own, ...(fieldIn(use) ? [use] : [])])]
  const options = [
    ...USES_SHOWN,
    ...fields.map((each) => [each, `Field “${fieldIn(each) ?? ''}”`] as const),
    ['new', 'New field …'] as const,
    ['none', 'Leave out'] as const,
  ]
  const label = title || `column ${at + 1}`
  return html`<span class="pick"
    ><select name="use:${at}" aria-label="What ${label} is">
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
  unconfirmed: 'Left out: never confirmed',
  unsubscribed: 'Left: kept as unsubscribed',
  blocked: 'Blocked: suppressed',
  bounced: 'Bounced: suppressed',
  complained: 'Complained: suppressed',
}

/** Of a value beside another status column, or in a list of people who left. */
const NOT_ALONE = 'Subscribed, unless something else says that they left'

/** What a value of a status column does; a value that nobody knows is a question. */
function meaningField({ meaning, value }: StatusValue, chosen: ImportChoice['words']): Html | string {
  if (meaning !== undefined) return MEANINGS[meaning]
  const options = [
    ['', 'Choose …'] as const,
    ...STANDINGS.map((each) => [each, MEANINGS[each]] as const),
    [REFUSE, 'Refuse these lines'] as const,
  ]
  const here = chosen.get(plain(value)) ?? ''
  return html`<select name="${WORD}${plain(value)}" aria-label="What “${value || 'no value'}” means" required>
    ${options.map(([each, words]) => html`<option value="${each}" ${each === here ? html`selected` : ''}>${words}</option>`)}
  </select>`
}

/** The columns, with two examples and the choice of what each is. */
function columnTable(look: HeldLook): Html {
  const { headless, titles, uses } = look.columns
  return table(
    'Columns',
    [{ title: 'Column', width: 25 }, 'Examples', { title: 'Becomes', width: 40 }],
    (headless ? ['The only column'] : titles).map((title, at) => [
      title || html`<span class="soft">no title</span>`,
      samplesOf(look, at),
      useField(headless ? '' : title, at, uses[at] ?? 'none'),
    ]),
    'No columns.',
  )
}

/** The standing of all people of a list, by its name or by the one value that all rows have. */
function standingOfAll({ columns: { values, whole }, rows }: HeldLook): Standing {
  const [only] = values
  return graver(whole, (only?.rows === rows ? only.meaning : undefined) ?? 'subscribed')
}

/** What the list says of the standing of its people. */
function statusTable(look: HeldLook, chosen: ImportChoice['words']): Html {
  const { values, whole } = look.columns
  const each = standingOfAll(look)
  const all =
    each === 'subscribed'
      ? html``
      : html`<p class="alert">This is a list of people who are not subscribed. Each: ${MEANINGS[each]}.</p>`
  if (values.length === 0) return all
  const alone = whole === 'subscribed' && values.every(({ title }) => title === values[0]?.title)
  return html`${all}
    <h2>Status</h2>
    <p class="soft">Nobody who left is subscribed again.</p>
    ${table(
      'Values of the status',
      ['Value', 'Column', { title: 'Rows', kind: 'figure' }, { title: 'What happens', width: 40 }],
      values.map((one) => [
        one.value || html`<span class="soft">no value</span>`,
        one.title,
        count(one.rows),
        one.meaning === 'subscribed' && !alone ? NOT_ALONE : meaningField(one, chosen),
      ]),
      '',
    )}`
}

/** The second step: what each column is, and what the values of status columns do. */
function showColumns(step: ImportStep, look: HeldLook, errors: Answer['errors'] = []): Response | Promise<Response> {
  const { choice, id, name, visit } = step
  const from = look.columns.program ?? choice.from
  return stepPage(visit, {
    id,
    name,
    step: 2,
    errors,
    body: html`<p>
        ${counted(look.rows, 'row')}${isNameIn(PRESETS, from) ? `, as ${PRESETS[from].called} exports them` : ''}.
      </p>
      ${form(
        visit,
        'check',
        html`${carried(step, look.escaped, false)} ${columnTable(look)} ${statusTable(look, choice.words)}
          ${field({
            name: 'existing',
            label: 'Who is in this audience already',
            options: [
              ['update', 'Update their name and fields'],
              ['keep', 'Leave them as they are'],
            ],
            value: choice.existing,
            hint: 'Who left in the file is not written to any more, either way.',
          })} <button>Next</button>`,
        { to: `/audiences/${id}/import`, kind: 'wide', multipart: true },
      )}`,
  })
}

/** The second step again; a sentence when the file cannot be read. */
async function toColumns(step: ImportStep, errors: Answer['errors'] = []): Promise<Response> {
  const { choice, id, name, upload, visit } = step
  const look = await lookApart(upload, wishesOf(choice))
  if (typeof look === 'string') return showFile(visit, { id, name, errors: refusal(look) })
  const { problem } = look.columns
  return showColumns(step, look, errors.length > 0 || problem === undefined ? errors : refusal(problem))
}

const UNDECIDED = 'Say what each value of the status means.'
const UNNAMED = 'A new field needs a name.'

/** A list of which more than a tenth is in error is perhaps not understood: its other rows are asked for by name. */
const importButton = (list: HeldContacts): Html =>
  tooWrong(list)
    ? html`${hidden('others', 'yes')}<button class="plain">
          Import the other ${counted(list.items.length, 'row')}
        </button>`
    : html`<button>Import ${counted(list.items.length, 'row')}</button>`

/** The third step, or the second one again when something has to be said there. */
async function toPreview(step: ImportStep, errors: Answer['errors'] = []): Promise<Response> {
  const { choice, id, upload, visit } = step
  if (choice.uses.includes(fieldUse(''))) return toColumns(step, refusal(UNNAMED))
  const look = await lookApart(upload, wishesOf(choice))
  if (typeof look === 'string') return toColumns(step, refusal(look))
  if (look.columns.problem !== undefined) return showColumns(step, look, refusal(look.columns.problem))
  if (look.columns.values.some(({ meaning, value }) => meaning === undefined && !choice.words.has(plain(value))))
    return showColumns(step, look, refusal(UNDECIDED))
  const list = await contactsApart(upload, wishesOf(choice))
  if (typeof list === 'string') return toColumns(step, refusal(list))
  const would = await wouldDo(visit, id, { list, existing: choice.existing })
  if ('errors' in would) return toColumns(step, would.errors)
  return stepPage(visit, {
    id,
    name: step.name,
    step: 3,
    errors,
    body: html`${previewOf(list, would, choice.from)}
      <div class="row">
        ${list.items.length === 0 ? '' : form(visit, 'import', html`${carried(step, list.escaped, true)}${importButton(list)}`, { to: `/audiences/${id}/import`, kind: 'inline', multipart: true })}
        ${form(visit, 'columns', html`${carried(step, list.escaped, true)}<button class="plain">Back to the columns</button>`, { to: `/audiences/${id}/import`, kind: 'inline', multipart: true })}
      </div>`,
  })
}

async function bring(step: ImportStep): Promise<Response> {
  const { choice, id, upload, visit } = step
  const list = await contactsApart(upload, wishesOf(choice))
  if (typeof list === 'string') return toColumns(step, refusal(list))
  // Somebody answered an older page: there is nothing to bring in, and the preview says why.
  if (list.items.length === 0 || (tooWrong(list) && !choice.others)) return toPreview(step)
  const done = await bringContacts(visit, id, { list, existing: choice.existing })
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
