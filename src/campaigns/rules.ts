// The rules of a segment: a list of conditions that a contact must meet. They are checked here and compiled to SQL.
// Every text of a rule is a parameter of the statement, and values of contacts never cause an error (AU60 to AU64).
import { z } from 'zod'
import { DAY } from '../base/clock.ts'
import { isObject } from '../base/json.ts'
import { isOneOf } from '../base/one-of.ts'
import { schemaOf } from '../jsonapi/openapi-schemas.ts'
import { line } from '../jsonapi/schemas.ts'
import { folded, foldedIn } from '../store/folded.ts'
import type { SqlCondition } from '../store/list.ts'

const MAX_CONDITIONS = 50
const MAX_RULES = 32 * 1024
const MAX_VALUES = 500
const MAX_DAYS = 3650

/** The fields of every contact. Other names are custom fields. */
export const OWN_FIELDS = ['name', 'email', 'email_domain', 'language'] as const
export const EVENTS = ['sent', 'delivered', 'opened', 'clicked', 'bounced'] as const
export const DATES = ['subscribed_at', 'created_at'] as const

const value = line(500, 'characters').refine((text) => text !== '', 'must not be empty')
const values = z
  .array(value, 'must be a list of texts')
  .min(1, 'must contain at least one text')
  .max(MAX_VALUES, `must contain at most ${MAX_VALUES} texts`)
const figure = z.number('must be a number')
const date = z.iso.date('must be a date such as "2026-01-31"')
const days = z
  .int('must be a number of days')
  .min(1, `must be 1 to ${MAX_DAYS} days`)
  .max(MAX_DAYS, { error: `must be 1 to ${MAX_DAYS} days`, abort: true })
const name = line(200, 'characters').refine(
  (text) => text !== '' && !/["\\]/.test(text),
  'must be the name of a field, without quotation marks and backslashes',
)

/** The operators of a field, each with the schema of its value. Null: it has none. */
export const FIELD_OPS = {
  is: value,
  is_not: value,
  contains: value,
  starts_with: value,
  ends_with: value,
  in: values,
  empty: null,
  not_empty: null,
  less: figure,
  greater: figure,
  before: date,
  after: date,
} as const
export const DATE_OPS = { before: date, after: date, within_days: days, older_than_days: days } as const
export const EVENT_OPS = ['did', 'did_not'] as const

type FieldOp = keyof typeof FIELD_OPS
type DateOp = keyof typeof DATE_OPS
interface FieldCondition {
  field: string
  op: FieldOp
  value?: string | string[] | number | undefined
}
interface EventCondition {
  event: (typeof EVENTS)[number]
  op: (typeof EVENT_OPS)[number]
  /** The id of a campaign to the audience. Without it and without days: any campaign. */
  campaign?: string | undefined
  days?: number | undefined
}
export type RuleCondition =
  | FieldCondition
  | { date: (typeof DATES)[number]; op: DateOp; value: string | number }
  | EventCondition

const oneOf = <const Names extends readonly [string, ...string[]]>(names: Names) =>
  z.enum(names, { error: `must be one of ${names.join(', ')}` })
const fieldOp = oneOf(Object.keys(FIELD_OPS) as [FieldOp, ...FieldOp[]])
const dateOp = oneOf(Object.keys(DATE_OPS) as [DateOp, ...DateOp[]])

const formsOf = (table: Readonly<Record<string, z.ZodType | null>>, of: z.ZodRawShape): Map<unknown, z.ZodType> =>
  new Map(Object.entries(table).map(([op, given]) => [op, z.strictObject({ ...of, ...(given && { value: given }) })]))
const fieldForms = formsOf(FIELD_OPS, { field: name, op: fieldOp })
const dateForms = formsOf(DATE_OPS, { date: oneOf(DATES), op: dateOp })
const eventForm = z
  .strictObject({ event: oneOf(EVENTS), op: oneOf(EVENT_OPS), campaign: line(100).optional(), days: days.optional() })
  .refine((given) => given.campaign === undefined || given.days === undefined, {
    path: ['days'],
    message: 'must be absent if "campaign" is set',
  })

const NO_CONDITION = z.custom<never>(
  () => false,
  'must be an object with "field", "date" or "event", for example {"field": "city", "op": "is", "value": "Ghent"}',
)

/** The schema of a condition, by its members: so a mistake in it has a pointer of its own. */
function formOf(item: unknown): z.ZodType {
  if (!isObject(item)) return NO_CONDITION
  if (Object.hasOwn(item, 'event')) return eventForm
  const forms = Object.hasOwn(item, 'date') ? dateForms : Object.hasOwn(item, 'field') ? fieldForms : undefined
  return (forms?.get(item['op']) ?? forms?.values().next().value) || NO_CONDITION
}

const condition = z.unknown().superRefine((item, context) => {
  for (const issue of formOf(item).safeParse(item).error?.issues ?? []) context.addIssue(issue as never)
})

/** The rules in answers. */
export const rulesAnswer = z.array(
  z.union([
    z.object({
      field: z.string(),
      op: fieldOp,
      value: z.union([z.string(), z.number(), z.array(z.string())]).optional(),
    }),
    z.object({ date: oneOf(DATES), op: dateOp, value: z.union([z.string(), z.int()]) }),
    z.object({ event: oneOf(EVENTS), op: oneOf(EVENT_OPS), campaign: z.string().optional(), days: z.int().optional() }),
  ]),
)

/** The attribute `rules` in requests. */
export const rulesSchema = z
  .array(z.unknown(), 'must be a list of conditions')
  .min(1, 'must contain at least one condition')
  .max(MAX_CONDITIONS, { error: `must contain at most ${MAX_CONDITIONS} conditions`, abort: true })
  .refine((list) => Buffer.byteLength(JSON.stringify(list)) <= MAX_RULES, {
    message: `must be at most ${MAX_RULES / 1024} KB as JSON`,
    params: { code: 'too_long' },
    abort: true,
  })
  .pipe(z.array(condition))
  .transform((list) => list as RuleCondition[])
  .meta({ ...schemaOf(rulesAnswer, 'input'), minItems: 1, maxItems: MAX_CONDITIONS })

// To SQL. The condition is an expression about a row of `contacts`. A field is read once for each contact, as `v` with
// its `type` in JSON, and as `f` if it is a text.

interface Sql {
  sql: string
  parameters: (string | number)[]
}

/** What the rules refer to: the keys of campaigns by their ids, and the time as of which events and dates count. */
export interface RulesContext {
  /** The key of the audience. */
  audience: number
  campaigns: ReadonlyMap<string, number>
  now: number
}

const DOMAIN = `substr(email, length(rtrim(email, replace(email, '@', ''))) + 1)`

/** The value of a field and its type as SQL. */
function fieldSql(field: string): Sql {
  const own = field === 'email_domain' ? DOMAIN : isOneOf(OWN_FIELDS, field) ? field : undefined
  if (own !== undefined) return { sql: `'text' as type, ${own} as v`, parameters: [] }
  const path = `$."${field}"`
  return { sql: 'json_type(custom_fields, ?) as type, json_extract(custom_fields, ?) as v', parameters: [path, path] }
}

/** Imports store numbers as texts. */
const asNumber = (compared: string): string =>
  `case when type in ('integer', 'real') or (json_valid(f) and json_type(f) in ('integer', 'real'))
    then cast(v as real) ${compared} end`
const asDate = (compared: string): string =>
  `(f glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' and unixepoch(f) * 1000 ${compared})`
const TEXT = foldedIn('f')
/** Objects and lists count as absent. */
const ABSENT = `(ifnull(type, 'null') in ('null', 'array', 'object') or ifnull(trim(v), '') = '')`

/** The start of a day, and of the day after it. */
const dayStart = (value: unknown): number => Date.parse(`${String(value)}T00:00:00Z`)

const FIELD_SQL: Record<FieldOp, (value: unknown) => Sql> = {
  is: (value) => ({ sql: `${TEXT} = ?`, parameters: [folded(String(value))] }),
  is_not: (value) => ({ sql: `${TEXT} is not ?`, parameters: [folded(String(value))] }),
  contains: (value) => ({ sql: `instr(${TEXT}, ?) > 0`, parameters: [folded(String(value))] }),
  starts_with: (value) => ({ sql: `instr(${TEXT}, ?) = 1`, parameters: [folded(String(value))] }),
  ends_with(value) {
    const end = folded(String(value))
    return { sql: `substr(${TEXT}, ?) = ?`, parameters: [-Array.from(end).length, end] }
  },
  in: (value) => ({
    sql: `${TEXT} in (select value from json_each(?))`,
    parameters: [JSON.stringify((value as string[]).map(folded))],
  }),
  empty: () => ({ sql: ABSENT, parameters: [] }),
  not_empty: () => ({ sql: `not ${ABSENT}`, parameters: [] }),
  less: (value) => ({ sql: asNumber('< ?'), parameters: [Number(value)] }),
  greater: (value) => ({ sql: asNumber('> ?'), parameters: [Number(value)] }),
  before: (value) => ({ sql: asDate('< ?'), parameters: [dayStart(value)] }),
  after: (value) => ({ sql: asDate('>= ?'), parameters: [dayStart(value) + DAY] }),
}

const DATE_SQL: Record<DateOp, (column: string, value: unknown, now: number) => Sql> = {
  before: (column, value) => ({ sql: `${column} < ?`, parameters: [dayStart(value)] }),
  after: (column, value) => ({ sql: `${column} >= ?`, parameters: [dayStart(value) + DAY] }),
  within_days: (column, value, now) => ({ sql: `${column} >= ?`, parameters: [now - Number(value) * DAY] }),
  older_than_days: (column, value, now) => ({ sql: `${column} < ?`, parameters: [now - Number(value) * DAY] }),
}

const TIMES = {
  sent: 'sent_at',
  delivered: 'delivered_at',
  opened: 'first_opened_at',
  clicked: 'first_clicked_at',
  bounced: 'bounced_at',
} as const

/**
 * Emails since a time. Campaigns that were sent a day before it or earlier have none: the day is for clocks that were
 * set back. The "+" stops SQLite from looking up each campaign for each contact. It reads the keys in the index of
 * contacts, and then only the emails of these campaigns.
 */
const emailsSince = (audience: number, since: number): Sql => ({
  sql: ` and coalesce(e.sent_at, e.bounced_at) >= ? and +e.campaign_key in
    (select key from campaigns where audience_key = ? and (status <> 'sent' or finished_at >= ?))`,
  parameters: [since, audience, since - DAY],
})

/** Opens and clicks are those of people (D38). Whoever got no tracked email is not one who did not open (AU63). */
function eventSql(
  { campaign, days: within, event, op }: EventCondition,
  { audience, campaigns, now }: RulesContext,
): Sql {
  const window: Sql =
    campaign !== undefined
      ? { sql: ' and e.campaign_key = ?', parameters: [campaigns.get(campaign) ?? 0] }
      : within !== undefined
        ? emailsSince(audience, now - within * DAY)
        : { sql: '', parameters: [] }
  const happened = (column: string, more = ''): Sql => ({
    sql: `exists (select 1 from outbound_emails e
      where e.contact_key = contacts.key and e.${column} is not null and e.${column} <= ?${more}${window.sql})`,
    parameters: [now, ...window.parameters],
  })
  const did = happened(TIMES[event])
  if (op === 'did') return did
  if (event !== 'opened' && event !== 'clicked') return { ...did, sql: `not ${did.sql}` }
  const could = happened('delivered_at', event === 'opened' ? ' and e.opens_tracked = 1' : ' and e.clicks_tracked = 1')
  return { sql: `iif(${did.sql}, 0, ${could.sql})`, parameters: [...did.parameters, ...could.parameters] }
}

/** The conditions about one field. The limit keeps SQLite from reading the field again for each of them. */
function fieldConditions(field: string, rules: readonly FieldCondition[]): Sql {
  const of = fieldSql(field)
  const conditions = rules.map(({ op, value }) => FIELD_SQL[op](value))
  const all = conditions.map(({ sql }) => `(${sql})`).join(' and ')
  return {
    sql: `exists (select 1 from (select type, v, iif(type = 'text', v, null) as f from (select ${of.sql} limit 1)) where ${all})`,
    parameters: [of, ...conditions].flatMap(({ parameters }) => parameters),
  }
}

/** The rules as one condition about a row of `contacts`. What costs most is evaluated last, and only if needed. */
export function compileRules(rules: readonly RuleCondition[], context: RulesContext): SqlCondition {
  const fields = Map.groupBy(
    rules.filter((rule) => 'field' in rule),
    ({ field }) => field,
  )
  const conditions = [
    ...rules.flatMap((rule) => ('date' in rule ? [DATE_SQL[rule.op](rule.date, rule.value, context.now)] : [])),
    ...Array.from(fields, ([field, some]) => fieldConditions(field, some)),
    ...rules.flatMap((rule) => ('event' in rule ? [eventSql(rule, context)] : [])),
  ]
  return {
    sql: conditions.reduceRight((rest, { sql }) => `iif(${sql}, ${rest}, 0)`, '1'),
    parameters: conditions.flatMap(({ parameters }) => parameters),
    sliced: true,
  }
}

/** The ids of the campaigns that rules name, each with the position of its condition. */
export const campaignsIn = (rules: readonly RuleCondition[]): { id: string; at: number }[] =>
  rules.flatMap((rule, at) => ('event' in rule && rule.campaign !== undefined ? [{ id: rule.campaign, at }] : []))
