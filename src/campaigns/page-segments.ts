// The segments of an audience, and the page of one: its rules as rows of a form that works without a script, the number
// of contacts that match, and their list.
import { html } from 'hono/html'
import { isNameIn } from '../base/one-of.ts'
import { csv } from '../views/html/csv.ts'
import { button, dangers, field, form } from '../views/html/forms.ts'
import { page } from '../views/html/frame.ts'
import { done, found, tagIn, type Form, type Place } from '../views/html/place.ts'
import {
  faultIn,
  number,
  objects,
  record,
  relatedId,
  text,
  type Answer,
  type Thing,
  type Visit,
} from '../views/html/visit.ts'
import { badge, count, counted, type Html } from '../views/html/widgets.ts'
import { listOf, type ListView } from '../views/list.ts'
import { listPlaces } from '../views/pages.ts'
import { audiences, contacts } from './api-audiences.ts'
import { audienceFields } from './api-fields.ts'
import { segmentCounts, segments } from './api-segments.ts'
import { campaigns } from './api.ts'
import { statusWord } from './page-words.ts'
import { DATES, EVENTS, FIELD_OPS, OWN_FIELDS, type RuleCondition } from './rules.ts'

/** A condition as the fields of a form. Without `what` it is an empty row. */
interface RuleFields {
  /** "field:city", "date:created_at" or "event:opened". */
  what: string
  op: string
  value: string
  campaign: string
}

const EMPTY: RuleFields = { what: '', op: 'is', value: '', campaign: '' }
const MAX_ROWS = 50

const OPS: Readonly<Record<string, string>> = {
  is: 'is',
  is_not: 'is not',
  contains: 'contains',
  starts_with: 'starts with',
  ends_with: 'ends with',
  in: 'is one of (separated by commas)',
  empty: 'is empty',
  not_empty: 'is not empty',
  less: 'is less than',
  greater: 'is greater than',
  before: 'is before (date)',
  after: 'is after (date)',
  within_days: 'is in the last … days',
  older_than_days: 'is more than … days ago',
  did: 'yes (in the last … days, if given)',
  did_not: 'no (in the last … days, if given)',
}

const NAMES: Readonly<Record<string, string>> = {
  'field:name': 'Name',
  'field:email': 'Email address',
  'field:email_domain': 'Domain of the address',
  'field:language': 'Language',
  'date:subscribed_at': 'Subscribed',
  'date:created_at': 'Added',
  'event:sent': 'Was sent a campaign',
  'event:delivered': 'Got a campaign',
  'event:opened': 'Opened a campaign',
  'event:clicked': 'Clicked in a campaign',
  'event:bounced': 'A campaign bounced',
}

const nameOf = (what: string): string => NAMES[what] ?? what.slice('field:'.length)

const LABELS = { name: 'Name', rules: 'Conditions' } as const

/** A rule of the API as a row. */
function rowOf(rule: RuleCondition): RuleFields {
  const { op } = rule
  if ('event' in rule)
    return { what: `event:${rule.event}`, op, value: String(rule.days ?? ''), campaign: rule.campaign ?? '' }
  const value = Array.isArray(rule.value) ? rule.value.join(', ') : String(rule.value ?? '')
  return { what: 'date' in rule ? `date:${rule.date}` : `field:${rule.field}`, op, value, campaign: '' }
}

/** A text as a number, if it is one. The API rejects other texts. */
const numeric = (value: string): number | string =>
  /^-?\d+(?:[.,]\d+)?$/.test(value) ? Number(value.replace(',', '.')) : value

const valueOf = (op: string, value: string): unknown => {
  if (op === 'in')
    return value
      .split(',')
      .map((each) => each.trim())
      .filter((each) => each !== '')
  return ['less', 'greater', 'within_days', 'older_than_days'].includes(op) ? numeric(value) : value
}

/** A row as a rule of the API. */
function ruleOf({ campaign, op, value, what }: RuleFields): object {
  const [kind = '', ...rest] = what.split(':')
  const name = rest.join(':')
  const given = value.trim()
  if (kind === 'event')
    return { event: name, op, ...(campaign !== '' && { campaign }), ...(given !== '' && { days: numeric(given) }) }
  const needs = kind === 'date' || !isNameIn(FIELD_OPS, op) || FIELD_OPS[op] !== null
  return { [kind]: name, op, ...(needs && { value: valueOf(op, given) }) }
}

/** The rows of a form, without those that were left empty. */
function rowsIn(given: Form): RuleFields[] {
  const rows: RuleFields[] = []
  for (let at = 0; at < MAX_ROWS && given.has(`what-${at}`); at++) {
    const of = (name: keyof RuleFields): string => given.get(`${name}-${at}`)
    if (given.get('step') !== `remove-${at}` && of('what') !== '')
      rows.push({ what: of('what'), op: of('op'), value: of('value'), campaign: of('campaign') })
  }
  return rows
}

interface Choices {
  whats: [string, string][]
  campaigns: [string, string][]
}

async function choicesOf(visit: Visit, audience: string, rows: readonly RuleFields[]): Promise<Choices> {
  const [fields, sent] = await Promise.all([
    visit.all(audienceFields, `/audiences/${audience}/fields`, 200),
    visit.allows('campaigns:read')
      ? visit.get(campaigns, `/campaigns?filter%5Baudience%5D=${audience}&sort=-created_at&page%5Bsize%5D=100`)
      : undefined,
  ])
  const own = new Set<string>(OWN_FIELDS)
  const custom = fields.map((each) => text(each, 'name')).filter((each) => !own.has(each) && !/["\\]/.test(each))
  const known = [
    ...OWN_FIELDS.map((each) => `field:${each}`),
    ...DATES.map((each) => `date:${each}`),
    ...EVENTS.map((each) => `event:${each}`),
    ...custom.map((each) => `field:${each}`),
  ]
  const whats = [...new Set([...known, ...rows.map(({ what }) => what)])].filter((each) => each !== '')
  const started = (sent?.many ?? []).filter(({ attributes }) => attributes.started_at !== null)
  const ids = started.map((each): [string, string] => [each.id, text(each, 'name')])
  const missing = rows.flatMap(({ campaign }): [string, string][] =>
    campaign === '' || ids.some(([id]) => id === campaign) ? [] : [[campaign, 'An older campaign']],
  )
  return {
    whats: [['', 'Choose …'], ...whats.map((each): [string, string] => [each, nameOf(each)])],
    campaigns: [['', 'Any campaign'], ...ids, ...missing],
  }
}

const DAYS = 'Enter a number of days from 1 to 3650.'
const VALUES: Readonly<Record<string, string>> = {
  in: 'Enter 1 to 500 texts of at most 500 characters, separated by commas.',
  less: 'Enter a number.',
  greater: 'Enter a number.',
  before: 'Enter a date such as 2026-01-31.',
  after: 'Enter a date such as 2026-01-31.',
  within_days: DAYS,
  older_than_days: DAYS,
}

/** What to correct in a field of a row. */
function hintOf(name: 'op' | 'campaign' | 'value', { campaign, op, what }: RuleFields): string {
  if (name === 'op') return `“${OPS[op] ?? op}” is not possible for “${nameOf(what)}”. Choose another operator.`
  if (name === 'campaign') return 'This campaign does not exist. Choose another one.'
  if (!what.startsWith('event:')) return VALUES[op] ?? 'Enter a text of 1 to 500 characters.'
  return campaign === '' ? DAYS : 'Remove the number of days, or choose “Any campaign”.'
}

/** The API's errors about conditions at the fields of their rows. */
const worded = (errors: Answer['errors'], rows: readonly RuleFields[]): Answer['errors'] =>
  errors.map((error) => {
    const [, at, member] = /\/rules\/(\d+)(?:\/(\w+))?/.exec(error.pointer ?? '') ?? []
    const row = rows[Number(at)]
    if (row) {
      const name = member === 'op' || member === 'campaign' ? member : 'value'
      return { ...error, field: `${name}-${at}`, detail: hintOf(name, row) }
    }
    if (error.field !== 'rules') return error
    const detail = rows.length === 0 ? 'Add a condition.' : 'The conditions are too long. Remove some of their texts.'
    return { ...error, detail }
  })

function rowFields(row: RuleFields, at: number, choices: Choices, fault: (name: string) => string | undefined): Html {
  const of = (name: keyof RuleFields, label: string, options?: [string, string][]): Html =>
    field({
      name: `${name}-${at}`,
      label,
      value: row[name],
      error: fault(`${name}-${at}`),
      ...(options && { options }),
    })
  return html`<fieldset>
    <legend>Condition ${at + 1}</legend>
    <div class="pair">
      ${of('what', 'About', choices.whats)} ${of('op', 'Operator', Object.entries(OPS))} ${of('value', 'Value')}
      ${of('campaign', 'Campaign (for sent, opened, …)', choices.campaigns)}
    </div>
    <button class="plain" name="step" value="remove-${at}">Remove condition ${at + 1}</button>
  </fieldset>`
}

interface Editing {
  audience: string
  segment?: Thing<typeof segments> | undefined
  name: string
  rows: readonly RuleFields[]
  errors?: Answer['errors']
  tag?: string
  counted?: Thing<typeof segmentCounts> | undefined
}

const countWords = (of: Thing<typeof segmentCounts>): string =>
  `${counted(number(of, 'matching'), 'contact')} ${number(of, 'matching') === 1 ? 'matches' : 'match'}, ${count(number(of, 'count'))} of them would receive a campaign now.`

/** The scheduled campaigns whose recipients change with a segment. */
async function scheduledFor(visit: Visit, audience: string, segment: string): Promise<string[]> {
  if (!visit.allows('campaigns:read')) return []
  const path = `/campaigns?filter%5Baudience%5D=${audience}&filter%5Bstatus%5D=scheduled`
  const all = await visit.all(campaigns, path)
  return all.filter((each) => relatedId(each, 'segment') === segment).map((each) => `“${text(each, 'name')}”`)
}

async function editor(
  visit: Visit,
  { audience, counted: sum, errors = [], name, rows, segment, tag = '' }: Editing,
): Promise<Html> {
  const shown = rows.length === 0 ? [EMPTY] : rows
  const fault = faultIn(errors, LABELS)
  const choices = await choicesOf(visit, audience, shown)
  const scheduled = segment ? await scheduledFor(visit, audience, segment.id) : []
  return html`${sum ? html`<p role="status">${countWords(sum)}</p>` : ''}
  ${scheduled.length === 0 ? '' : html`<p class="warning">A change also applies to scheduled campaigns: ${scheduled.join(', ')}.</p>`}
  ${
    visit.reading
      ? ''
      : form(
          visit,
          'save',
          html`<input type="hidden" name="tag" value="${tag}" />
            <button name="step" value="count" hidden tabindex="-1">Count</button>
            ${field({ name: 'name', label: LABELS.name, value: name, required: true, error: fault('name') })}
            <p class="soft" id="rules">A contact must meet all conditions.</p>
            ${shown.map((row, at) => rowFields(row, at, choices, fault))}
            <div class="row">
              ${shown.length < MAX_ROWS ? html`<button class="plain" name="step" value="add">Add condition</button>` : ''}
              <button class="plain" name="step" value="count">Count contacts</button>
              <button name="step" value="save">Save segment</button>
            </div>`,
          { kind: 'wide' },
        )
  }`
}

const audienceOf = async (visit: Visit, id: string): Promise<Thing<typeof audiences>> =>
  found(await visit.get(audiences, `/audiences/${id}`)).one

const crumbsOf = (audience: Thing<typeof audiences>): (readonly [string, string])[] => [
  ['/audiences', 'Audiences'],
  [`/audiences/${audience.id}`, text(audience, 'name')],
  [`/audiences/${audience.id}/segments`, 'Segments'],
]

/** Performs a step of the form that saves nothing. Undefined if it is to be saved. */
async function stepOf(
  visit: Visit,
  given: Form,
  audience: string,
): Promise<Pick<Editing, 'counted' | 'errors' | 'rows'> | undefined> {
  const rows = rowsIn(given)
  const step = given.get('step')
  if (step === 'add') return { rows: [...rows, EMPTY] }
  if (step.startsWith('remove-')) return { rows }
  if (step !== 'count') return undefined
  const { errors, one } = await visit.ask('POST', `/audiences/${audience}/segment-counts`, {
    type: 'segment-counts',
    attributes: { rules: rows.map(ruleOf) },
  })
  return { rows, errors: worded(errors, rows), counted: one as Thing<typeof segmentCounts> | undefined }
}

async function newPage(visit: Visit, editing: Omit<Editing, 'audience'> = { name: '', rows: [] }): Promise<Response> {
  const audience = await audienceOf(visit, visit.context.req.param('id') ?? '')
  const { errors = [] } = editing
  return page(visit, {
    title: 'New segment',
    about: 'A segment selects contacts by rules. A campaign to it is sent to those who match when it starts.',
    crumbs: crumbsOf(audience),
    status: errors.length > 0 ? 422 : 200,
    errors,
    labels: LABELS,
    body: await editor(visit, { ...editing, audience: audience.id }),
  })
}

const fresh: Place = {
  path: '/audiences/:id/segments/new',
  changes: true,
  show: (visit) => newPage(visit),
  async act(visit, given) {
    const id = visit.context.req.param('id') ?? ''
    const name = given.get('name')
    const step = await stepOf(visit, given, id)
    if (step) return newPage(visit, { name, ...step })
    const rows = rowsIn(given)
    const answer = await visit.ask('POST', `/audiences/${id}/segments`, {
      type: 'segments',
      attributes: { name, rules: rows.map(ruleOf) },
    })
    return answer.one
      ? visit.say(`/segments/${answer.one.id}`, `Created “${name}”.`)
      : newPage(visit, { name, rows, errors: worded(answer.errors, rows) })
  },
}

const matchingContacts = (segment: string, audience: string): ListView<typeof contacts> => ({
  of: contacts,
  from: `/audiences/${audience}/contacts?filter%5Bsegment%5D=${segment}`,
  caption: 'Matching contacts',
  size: 25,
  columns: [
    { title: 'Email address', of: 'email', to: ({ id }) => `/audiences/${audience}/contacts/${id}` },
    { title: 'Name', of: 'name' },
    { title: 'Status', kind: 'status', of: (contact) => badge(statusWord(text(contact, 'status'))) },
    { title: 'Added', kind: 'time', of: 'created_at' },
  ],
  empty: 'No contact matches.',
})

async function showSegment(visit: Visit, typed: Partial<Editing> = {}): Promise<Response> {
  const id = visit.context.req.param('id') ?? ''
  const { headers, one } = found(await visit.get(segments, `/segments/${id}`))
  const audience = await audienceOf(visit, relatedId(one, 'audience') ?? '')
  const name = text(one, 'name')
  const counted = 'rows' in typed ? typed.counted : (await visit.get(segmentCounts, `/segments/${id}/count`)).one
  const { errors = [] } = typed
  const form = await editor(visit, {
    audience: audience.id,
    segment: one,
    name,
    rows: objects(one, 'rules').map(rowOf),
    tag: headers.get('etag') ?? '',
    ...typed,
    counted,
  })
  const about = 'Contacts who meet all conditions. A campaign to a segment is sent to those who match when it starts.'
  const remove = 'Deletes the segment. Its contacts are kept.'
  return page(visit, {
    title: name,
    about,
    crumbs: crumbsOf(audience),
    actions: html`<a class="button plain" href="/segments/${id}/export.csv">Export</a>`,
    status: errors.length > 0 ? 422 : 200,
    errors,
    labels: LABELS,
    done: done(visit),
    body: html`${form}
      <h2>Matching contacts</h2>
      ${(await listOf(visit, matchingContacts(id, audience.id))).body}
      ${dangers(visit, [[remove, button(visit, 'remove', 'Delete segment', { danger: true, confirm: remove })]])}`,
  })
}

const CHANGED = 'Another user changed this segment in the meantime. Save again to replace that change.'

const one: Place = {
  path: '/segments/:id',
  show: (visit) => showSegment(visit),
  async act(visit, given) {
    const id = visit.context.req.param('id') ?? ''
    const { one: before } = found(await visit.get(segments, `/segments/${id}`))
    const audience = relatedId(before, 'audience') ?? ''
    if (given.action === 'remove') {
      const gone = await visit.ask('DELETE', `/segments/${id}`)
      return gone.status === 204
        ? visit.say(`/audiences/${audience}/segments`, `Deleted “${text(before, 'name')}”.`)
        : showSegment(visit, { errors: gone.errors })
    }
    const name = given.get('name')
    const step = await stepOf(visit, given, audience)
    if (step) return showSegment(visit, { name, tag: tagIn(given), ...step })
    const rows = rowsIn(given)
    const document = { type: 'segments', id, attributes: { name, rules: rows.map(ruleOf) } }
    const answer = await visit.ask('PATCH', `/segments/${id}`, document, { 'If-Match': tagIn(given) })
    if (answer.one) return visit.say(`/segments/${id}`, `Saved “${name}”.`)
    const clash = answer.errors.some(({ code }) => code === 'changed_meanwhile')
    const errors = clash
      ? [{ code: 'changed_meanwhile', field: undefined, detail: CHANGED }]
      : worded(answer.errors, rows)
    return showSegment(visit, { name, rows, errors })
  },
}

const file: Place = {
  path: '/segments/:id/export.csv',
  async show(visit) {
    const id = visit.context.req.param('id') ?? ''
    const { one: segment } = found(await visit.get(segments, `/segments/${id}`))
    return csv(visit, 'segment.csv', {
      of: contacts,
      path: `/audiences/${relatedId(segment, 'audience')}/contacts?filter%5Bsegment%5D=${id}`,
      titles: ['email', 'name', 'status', 'fields', 'created_at'],
      row: contactCells,
    })
  },
}

/** The cells of a contact in an exported file. */
export const contactCells = (each: Thing<typeof contacts>): string[] => [
  text(each, 'email'),
  text(each, 'name'),
  text(each, 'status'),
  JSON.stringify(record(each, 'custom_fields')),
  text(each, 'created_at'),
]

const list = listPlaces({
  path: '/audiences/:id/segments',
  title: 'Segments',
  about: 'Rules that select contacts of an audience. A campaign can be sent to one of them.',
  head: (visit) =>
    visit.reading
      ? ''
      : html`<a class="button" href="/audiences/${visit.context.req.param('id')}/segments/new">New segment</a>`,
  list: (visit): ListView<typeof segments> => ({
    of: segments,
    from: `/audiences/${visit.context.req.param('id')}/segments`,
    caption: 'Segments',
    columns: [
      { title: 'Name', of: 'name', to: ({ id }) => `/segments/${id}` },
      { title: 'Conditions', kind: 'figure', of: (each) => count(objects(each, 'rules').length) },
      { title: 'Changed', kind: 'time', of: 'updated_at' },
    ],
    empty: 'No segments yet.',
  }),
})

export const segmentPlaces = [fresh, ...list, file, one]
