// The segments of an audience, and the page of one: its rules as rows of a form that works without a script, the number
// of contacts that match, and their list.
import { html } from 'hono/html'
import { isNameIn } from '../base/one-of.ts'
import { button, dangers, field, form } from '../views/html/forms.ts'
import { page } from '../views/html/frame.ts'
import { done, found, tagIn, type Form, type Place } from '../views/html/place.ts'
import {
  faultIn,
  number,
  objects,
  relatedId,
  text,
  thingOf,
  type Answer,
  type Thing,
  type Visit,
} from '../views/html/visit.ts'
import { badge, count, counted, type Html } from '../views/html/widgets.ts'
import { listOf, type ListView } from '../views/list.ts'
import { listPlaces } from '../views/pages.ts'
import type { ViewColumn } from '../views/table.ts'
import { audiences, contacts } from './api-audiences.ts'
import { audienceFields } from './api-fields.ts'
import { segmentCounts, segments } from './api-segments.ts'
import { campaigns } from './api.ts'
import { statusWord } from './page-words.ts'
import { FIELD_OPS, type RuleCondition } from './rules.ts'

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
  did: 'yes',
  did_not: 'no',
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
  const custom = fields.map((each) => text(each, 'name')).filter((each) => !/["\\]/.test(each))
  const used = rows.map(({ what }) => what).filter((each) => each !== '')
  const whats = new Set([...Object.keys(NAMES), ...custom.map((each) => `field:${each}`), ...used])
  const names = new Map([
    // Older campaigns are not read.
    ...rows.map(({ campaign }) => [campaign, 'An older campaign'] as const),
    ...(sent?.many ?? [])
      .filter(({ attributes }) => attributes.started_at !== null)
      .map((each) => [each.id, text(each, 'name')] as const),
  ])
  names.delete('')
  return {
    whats: [['', 'Choose …'], ...Array.from(whats, (each): [string, string] => [each, nameOf(each)])],
    campaigns: [['', 'Any campaign'], ...names],
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
      ${of('what', 'About', choices.whats)} ${of('op', 'Operator', Object.entries(OPS))}
      ${of('value', 'Value, or number of days')} ${of('campaign', 'Campaign', choices.campaigns)}
    </div>
    <button class="plain" name="step" value="remove-${at}">Remove condition ${at + 1}</button>
  </fieldset>`
}

/** A page of a segment or, without one, of a new segment. */
interface Edited {
  audience: Thing<typeof audiences>
  segment?: Thing<typeof segments>
  /** The version of the segment that is edited. */
  tag?: string
}

/** The form of a page: as it was stored, or as it was typed. */
interface Editing {
  name: string
  rows: readonly RuleFields[]
  errors?: Answer['errors']
  counted?: Thing<typeof segmentCounts> | undefined
}

const countWords = (of: Thing<typeof segmentCounts>): string =>
  `${counted(number(of, 'matching'), 'contact')} ${number(of, 'matching') === 1 ? 'matches' : 'match'}, ${count(number(of, 'count'))} of them would receive a campaign now.`

/** The scheduled campaigns whose recipients change with a segment. */
async function scheduledFor(visit: Visit, { audience, segment }: Edited): Promise<string[]> {
  if (!segment || !visit.allows('campaigns:read')) return []
  const path = `/campaigns?filter%5Baudience%5D=${audience.id}&filter%5Bstatus%5D=scheduled`
  const all = await visit.all(campaigns, path)
  return all.filter((each) => relatedId(each, 'segment') === segment.id).map((each) => `“${text(each, 'name')}”`)
}

async function editor(visit: Visit, edited: Edited, { errors = [], name, rows }: Editing): Promise<Html> {
  const shown = rows.length === 0 ? [EMPTY] : rows
  const fault = faultIn(errors, LABELS)
  const [choices, scheduled] = await Promise.all([
    choicesOf(visit, edited.audience.id, shown),
    scheduledFor(visit, edited),
  ])
  return html`${scheduled.length === 0 ? '' : html`<p class="warning">A change also applies to scheduled campaigns: ${scheduled.join(', ')}.</p>`}
  ${form(
    visit,
    'save',
    html`<input type="hidden" name="tag" value="${edited.tag ?? ''}" />
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
  )}`
}

const GONE = 'Deletes the segment. Its contacts are kept.'

async function showEditing(visit: Visit, edited: Edited, editing: Editing): Promise<Response> {
  const { audience, segment } = edited
  const { counted: sum, errors = [] } = editing
  const list = `/audiences/${audience.id}/segments`
  const matching = segment && (await listOf(visit, matchingContacts(segment.id, audience.id))).body
  return page(visit, {
    title: segment ? text(segment, 'name') : 'New segment',
    about: 'Contacts who meet all conditions. A campaign to a segment is sent to those who match when it starts.',
    crumbs: [
      ['/audiences', 'Audiences'],
      [`/audiences/${audience.id}`, text(audience, 'name')],
      [list, 'Segments'],
    ],
    ...(segment && {
      actions: html`<a class="button plain" href="/audiences/${audience.id}/export.csv?segment=${segment.id}"
        >Export</a
      >`,
    }),
    status: errors.length > 0 ? 422 : 200,
    errors,
    labels: LABELS,
    done: done(visit),
    body: html`${sum ? html`<p role="status">${countWords(sum)}</p>` : ''}
    ${visit.reading ? '' : await editor(visit, edited, editing)}
    ${
      matching &&
      html`<h2>Matching contacts</h2>
        ${matching}
        ${dangers(visit, [[GONE, button(visit, 'remove', 'Delete segment', { danger: true, confirm: GONE })]])}`
    }`,
  })
}

const CHANGED = 'Another user changed this segment in the meantime. Save again to replace that change.'

/** Performs a step of the form: saves the segment, counts its contacts, or adds or removes a row. */
async function act(visit: Visit, edited: Edited, given: Form): Promise<Response> {
  const { audience, segment } = edited
  const list = `/audiences/${audience.id}/segments`
  const [name, rows, step] = [given.get('name'), rowsIn(given), given.get('step')]
  // A step keeps the version that the user started from, so that saving notices a change by another user.
  const again = (more: Partial<Editing> = {}, tag = tagIn(given)) =>
    showEditing(visit, { ...edited, tag }, { name, rows, ...more })
  const attributes = { rules: rows.map(ruleOf) }
  if (step === 'add') return again({ rows: [...rows, EMPTY] })
  if (step.startsWith('remove-')) return again()
  if (step === 'count') {
    const document = { type: 'segment-counts', attributes }
    const { errors, one } = await visit.ask('POST', `/audiences/${audience.id}/segment-counts`, document)
    return again({ errors: worded(errors, rows), counted: one && thingOf(segmentCounts, one) })
  }
  const document = { type: 'segments', attributes: { name, ...attributes } }
  const answer = await (segment
    ? visit.ask('PATCH', `/segments/${segment.id}`, { ...document, id: segment.id }, { 'If-Match': tagIn(given) })
    : visit.ask('POST', list, document))
  if (answer.one) return visit.say(`/segments/${answer.one.id}`, `${segment ? 'Saved' : 'Created'} “${name}”.`)
  const clash = answer.errors.find(({ code }) => code === 'changed_meanwhile')
  return clash
    ? again({ errors: [{ ...clash, detail: CHANGED }] }, edited.tag)
    : again({ errors: worded(answer.errors, rows) })
}

const audienceOf = async (visit: Visit, id: string): Promise<Thing<typeof audiences>> =>
  found(await visit.get(audiences, `/audiences/${id}`)).one

const newIn = async (visit: Visit): Promise<Edited> => ({
  audience: await audienceOf(visit, visit.context.req.param('id') ?? ''),
})

const fresh: Place = {
  path: '/audiences/:id/segments/new',
  changes: true,
  show: async (visit) => showEditing(visit, await newIn(visit), { name: '', rows: [] }),
  act: async (visit, given) => act(visit, await newIn(visit), given),
}

/** The columns of a list of contacts. */
export const contactColumns = (audience: string): readonly ViewColumn<typeof contacts>[] => [
  { title: 'Email address', of: 'email', to: ({ id }) => `/audiences/${audience}/contacts/${id}` },
  { title: 'Name', of: 'name' },
  {
    title: 'Status',
    kind: 'status',
    sort: 'status,created_at',
    of: (contact) => badge(statusWord(text(contact, 'status'))),
  },
  { title: 'Added', kind: 'time', of: 'created_at' },
]

const matchingContacts = (segment: string, audience: string): ListView<typeof contacts> => ({
  of: contacts,
  from: `/audiences/${audience}/contacts?filter%5Bsegment%5D=${segment}`,
  caption: 'Matching contacts',
  size: 25,
  columns: contactColumns(audience),
  empty: 'No contact matches.',
})

async function storedIn(visit: Visit): Promise<Edited & { segment: Thing<typeof segments> }> {
  const { headers, one: segment } = found(await visit.get(segments, `/segments/${visit.context.req.param('id')}`))
  const audience = await audienceOf(visit, relatedId(segment, 'audience') ?? '')
  return { audience, segment, tag: headers.get('etag') ?? '' }
}

/** A segment as it is stored. */
async function showStored(
  visit: Visit,
  edited: Edited & { segment: Thing<typeof segments> },
  errors: Answer['errors'],
) {
  const { segment } = edited
  const { one } = await visit.get(segmentCounts, `/segments/${segment.id}/count`)
  const rows = objects(segment, 'rules').map(rowOf)
  return showEditing(visit, edited, { name: text(segment, 'name'), rows, errors, counted: one })
}

const one: Place = {
  path: '/segments/:id',
  show: async (visit) => showStored(visit, await storedIn(visit), []),
  async act(visit, given) {
    const edited = await storedIn(visit)
    const { audience, segment } = edited
    if (given.action !== 'remove') return act(visit, edited, given)
    const { errors, status } = await visit.ask('DELETE', `/segments/${segment.id}`)
    return status === 204
      ? visit.say(`/audiences/${audience.id}/segments`, `Deleted “${text(segment, 'name')}”.`)
      : showStored(visit, edited, errors)
  },
}

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

export const segmentPlaces = [fresh, ...list, one]
