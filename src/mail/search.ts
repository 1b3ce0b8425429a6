// The search over emails: to: from: subject: status: domain: receiver: campaign: agent: before: after:, and free words,
// which match addresses and subjects. Each term becomes a condition in SQL on `outbound_emails`.
//
// Words are searched in one pass over the account's emails, the newest first, in slices, which ends at FEW matches.
// Subjects are read from an index that holds only subjects, in less than half the time that the table takes. The index
// does not split subjects into words, so that parts of words are found too, and an erased address is erased there as
// well.
import { must, refuse } from '../base/errors.ts'
import { isNameIn } from '../base/one-of.ts'
import { EMAIL_STATUSES } from '../store/states/outbound-email.ts'
import { containing, inLowerCase, MOST_SEARCHED } from '../jsonapi/fields.ts'
import type { Filter } from '../jsonapi/resource.ts'
import type { Reader } from '../store/database.ts'
import type { SqlCondition } from '../store/list.ts'
import { raw } from '../store/query.ts'
import { domainInSql } from '../message/lane-names.ts'
import { readSlice, takeTurn, untilSpent } from '../store/slices.ts'
import { toReceiver } from '../reputation/waiting-receivers.ts'

/** The emails of a search: they meet all conditions. */
export interface Searched {
  conditions: SqlCondition[]
  /** The index of statuses and times of creation has all columns that the conditions need. */
  ofTimes: boolean
}

interface Term extends SqlCondition {
  /** The index of statuses and times of creation has all columns that the term needs. */
  ofTimes?: true
  /** The index of subjects has all columns that the term needs. */
  ofSubject?: true
  /** How the matching emails are found, if no index finds them in the order of a list. */
  by?: 'address' | 'reading'
}

/** The most matches that are looked up by their keys. Further matches are searched one by one. */
const FEW = 2000
/** The most recipients that are looked up by their addresses. For more, each email is checked. */
const FEW_ADDRESSES = 5000
/** The most matches of a slice. */
const MATCHES = 1000
/** The time of a slice is checked once for this many emails, because each check costs as much as three emails. */
const LOOK_EVERY = 61
/** Sorts after every character that an address may have. */
const LAST = '\u{10ffff}'

/** A text in a column of the email. For a campaign's email, subject and sender are columns of the campaign. */
async function holdsOrCampaign(
  column: string,
  ofCampaign: string,
  text: string,
  { reader, userKey }: SearchPlace,
): Promise<Term> {
  const own = containing([`"${column}"`], text)
  const campaigns = await campaignsWith(reader, userKey, containing([ofCampaign], text))
  return {
    by: 'reading',
    sql: `${own.sql} or campaign_key in (select value from json_each(?))`,
    parameters: [...own.parameters, campaigns],
  }
}

/** The keys of an account's campaigns that meet a condition, as JSON. */
async function campaignsWith(reader: Reader, userKey: number, condition: SqlCondition): Promise<string> {
  const found: number[] = []
  for await (const rows of passes(reader, 'campaigns', ofAccount(userKey, condition)))
    found.push(...rows.map(({ key }) => key))
  return JSON.stringify(found)
}

/** The account in which a term is searched. */
interface SearchPlace {
  reader: Reader
  userKey: number
}

/** Milliseconds of "2026-11-01" or a whole timestamp. Throws 400. */
function moment(text: string): number {
  const at = Date.parse(text)
  if (Number.isNaN(at))
    throw refuse(
      'unsupported_filter',
      `"${text}" is not a time. Use a time such as 2026-11-01 or 2026-11-01T12:00:00Z.`,
      PARAMETER,
    )
  return at
}

/** The words of pages for queued emails, each with the recipients that it finds. */
const QUEUED: Readonly<Record<string, string>> = {
  waiting: '',
  deferred: `v.status = 'queued' and v.response is not null and v.response not glob 'warm-up: *'`,
  held: `v.status = 'held' or (v.status = 'queued' and exists (select 1 from lane_holds h where h.lane = ${domainInSql('v.lane')}))`,
  'warm-up': `v.status = 'queued' and v.response glob 'warm-up: *'`,
}

/** The status of emails that a word of the search means. "waiting" is shown for queued email. */
export const statusOf = (word: string): string => (isNameIn(QUEUED, word) ? 'queued' : word)

/** The conditions of a status, or of another word for a queued email. Throws 400. */
function status(word: string): Term[] {
  const known = EMAIL_STATUSES.find((each) => each === statusOf(word))
  if (!known) {
    const names = [...EMAIL_STATUSES, ...Object.keys(QUEUED)].join(', ')
    throw refuse('unsupported_filter', `"${word}" is not an email status. Use one of ${names}.`, PARAMETER)
  }
  const some = QUEUED[word] || 'true'
  const sql = `exists (select 1 from deliveries v where v.email_key = outbound_emails.key and (${some}))`
  const ofStatus: Term = { ofTimes: true, sql: 'status = ?', parameters: [known] }
  return some === 'true' ? [ofStatus] : [ofStatus, { sql, parameters: [] }]
}

const PARAMETER = { parameter: 'filter[search]' }

/** The terms by the name before the colon. */
const TERMS: Record<string, (value: string, place: SearchPlace) => Term | Term[] | Promise<Term>> = {
  to: (value, { reader }) =>
    value.startsWith('@')
      ? toDomain(value.slice(1))
      : isWhole(value)
        ? toRecipient(reader, value)
        : toBeginning(reader, value),
  from: (value, place) => holdsOrCampaign('from', 'from_address', value, place),
  subject: async (value, place) => ({
    ...(await holdsOrCampaign('subject', 'subject', value, place)),
    ofSubject: true,
  }),
  status: (value) => status(value.toLowerCase()),
  domain: (value) => ({
    sql: 'domain_key in (select key from domains where name = ? or id = ?)',
    parameters: [value.toLowerCase(), value],
  }),
  receiver: (value, { reader, userKey }) => {
    const domain = toDomain(value.replace(/^@/, ''))
    const receiver = toReceiver(reader, userKey, value.replace(/^@/, ''))
    if (!receiver) return domain
    // Email that was never attempted, or went to another receiver before, is found by its recipient.
    const { parameters, sql } = receiver
    return { by: 'reading', sql: `${sql} or ${domain.sql}`, parameters: [...parameters, ...domain.parameters] }
  },
  campaign: async (value, { reader, userKey }) => {
    if (/^(?:yes|no)$/i.test(value))
      return { sql: `campaign_key is ${value.toLowerCase() === 'yes' ? 'not ' : ''}null`, parameters: [] }
    const named = containing(['name'], value)
    const condition = { sql: `id = ? or ${named.sql}`, parameters: [value, ...named.parameters] }
    return {
      sql: 'campaign_key in (select value from json_each(?))',
      parameters: [await campaignsWith(reader, userKey, condition)],
    }
  },
  agent: (value) => ({ sql: 'agent_id = ?', parameters: [value] }),
  after: (value) => ({ ofTimes: true, sql: 'created_at >= ?', parameters: [moment(value)] }),
  before: (value) => ({ ofTimes: true, sql: 'created_at < ?', parameters: [moment(value)] }),
}

const isWhole = (address: string): boolean => /^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(address)

/** Emails to an address in upper or lower case, in the role to, cc or bcc. */
const toRecipient = (reader: Reader, address: string): Term =>
  toAddresses(reader, (of) => `${of} = ?`, [inLowerCase(address)])

/** Emails to addresses that begin with the text. */
function toBeginning(reader: Reader, text: string): Term {
  const from = inLowerCase(text)
  return toAddresses(reader, (of) => `${of} >= ? and ${of} < ?`, [from, from + LAST])
}

/** Emails with a recipient whose address, in lower case, meets a condition. */
function toAddresses(reader: Reader, meets: (address: string) => string, parameters: string[]): Term {
  const those = `select email_key from deliveries where ${meets('lower(address)')}`
  const { count } = reader.one(
    raw<{ count: number }>(`select count(*) as count from (${those} limit ${FEW_ADDRESSES + 1})`, parameters),
  )
  return count <= FEW_ADDRESSES
    ? { by: 'address', sql: `key in (${those})`, parameters }
    : {
        by: 'reading',
        sql: `exists (select 1 from deliveries v where v.email_key = outbound_emails.key and ${meets('lower(v.address)')})`,
        parameters,
      }
}

/** Emails whose first recipient is at a domain. */
function toDomain(domain: string): Term {
  const ends = [`@${domain}`, `@${domain}>`].map(inLowerCase)
  return {
    by: 'reading',
    sql: ends.map(() => `lower(substr("to", -length(?))) = ?`).join(' or '),
    parameters: ends.flatMap((end) => [end, end]),
  }
}

/** The names before the colon, as sentences list them. */
const NAMES = Object.keys(TERMS)
  .map((name) => `${name}:`)
  .join(', ')

/** "subject:"two words"", or a word. */
export const TERM = /(?:([a-z]+):)?(?:"([^"]*)"|(\S+))/gi
const MAX_TERMS = 10
const MOST_WHOLE = 500

/** The conditions for a search of an account's emails: terms such as to:ann@there.test, and free words. Throws 400. */
export async function searched(reader: Reader, userKey: number, text: string): Promise<Searched> {
  const terms: Term[] = []
  const place = { reader, userKey }
  for (const [whole, key, quoted, plain] of text.matchAll(TERM)) {
    const value = quoted ?? plain ?? ''
    const name = key?.toLowerCase()
    if (name !== undefined && !Object.hasOwn(TERMS, name))
      throw refuse(
        'unsupported_filter',
        `"${key}:" is not a search term. Use ${NAMES}. To search for the text, put it in quotes: "${whole.replaceAll('"', '')}".`,
        PARAMETER,
      )
    if (terms.length === MAX_TERMS)
      throw refuse(
        'unsupported_filter',
        `The search has too many words and terms. The limit is ${MAX_TERMS}.`,
        PARAMETER,
      )
    if (value.length > MOST_SEARCHED && !isWhole(value))
      throw refuse(
        'unsupported_filter',
        `A word of the search is too long. The limit is ${MOST_SEARCHED} characters.`,
        PARAMETER,
      )
    terms.push(...[await (name === undefined ? withWord(value, place) : TERMS[name]!(value, place))].flat())
  }
  const ofTimes = terms.filter((term) => term.ofTimes)
  const others = terms.filter((term) => !term.ofTimes)
  const by = (way: Term['by']): boolean => others.some((each) => each.by === way)
  const few = by('address')
    ? await byAddress(reader, userKey, allOf(terms))
    : by('reading')
      ? await byReading(
          reader,
          userKey,
          allOf(terms),
          others.length === terms.length && others.every(({ ofSubject }) => ofSubject),
        )
      : undefined
  if (few?.selective) return { conditions: [few], ofTimes: false }
  const conditions = [
    ...ofTimes,
    ...(few ? [few] : others.length === 0 ? [] : [{ ...allOf(others), sliced: true as const }]),
  ]
  return { conditions, ofTimes: others.length === 0 }
}

export const allOf = (conditions: readonly SqlCondition[]): SqlCondition => ({
  sql: conditions.length === 0 ? 'true' : conditions.map(({ sql }) => `(${sql})`).join(' and '),
  parameters: conditions.flatMap(({ parameters }) => parameters),
})

/** The search as a filter of the API. */
export const search: Filter = {
  column: 'subject',
  whole: MOST_WHOLE,
  sql: async (value, reader, { userKey }) => (await searched(reader, userKey, value)).conditions,
  about:
    'Filter by search terms: `to:`, `from:`, `subject:`, `status:` (also `deferred`, `held` and `warm-up` for queued emails), `domain:` (sending domain), `receiver:` (recipient domain, or a receiver as in the statistics), `campaign:` (a name, an id, `yes` or `no`), `agent:`, `before:` and `after:`. Other words match the subject or the beginning of a recipient’s address.',
  extension: true,
}

/** A condition for rows of an account, met row by row, so that a pass reads a table in the order of its rows. */
export const ofAccount = (userKey: number, { parameters, sql }: SqlCondition): SqlCondition => ({
  sql: `user_key = ? and (${sql})`,
  parameters: [userKey, ...parameters],
})

const ofKeys = (keys: readonly number[]): SqlCondition => ({
  sql: 'key in (select value from json_each(?))',
  parameters: [JSON.stringify(keys)],
})

/** The matching emails by their keys, if the searched address occurs in few emails. */
async function byAddress(reader: Reader, userKey: number, { parameters, sql }: SqlCondition): Promise<SqlCondition> {
  await takeTurn()
  const found = reader.all(
    raw<{ key: number }>(`select key from outbound_emails where +user_key = ? and ${sql}`, [userKey, ...parameters]),
  )
  return { ...ofKeys(found.map(({ key }) => key)), selective: true }
}

/**
 * The matching emails by their keys. If many match, the keys of the newest, and the condition for the older ones. With
 * the first condition in the order of a list, SQLite would look up each mail separately by an index. Here it reads the
 * table in the order of its rows.
 */
async function byReading(
  reader: Reader,
  userKey: number,
  all: SqlCondition,
  bySubject: boolean,
): Promise<SqlCondition> {
  const found: number[] = []
  const mails = 'outbound_emails'
  const pass = bySubject
    ? passes(reader, `${mails} indexed by outbound_emails_words`, all, { userKey })
    : passes(reader, mails, ofAccount(userKey, all))
  for await (const rows of pass) {
    found.push(...rows.map(({ key }) => key))
    if (found.length > FEW) break
  }
  const those = ofKeys(found)
  if (found.length <= FEW) return { ...those, selective: true }
  return {
    sql: `${those.sql} or (key < ? and ${all.sql})`,
    parameters: [...those.parameters, must(found.at(-1), 'The last mail that was found'), ...all.parameters],
    sliced: true,
  }
}

/**
 * The matching rows of a table, the newest first, a slice at a time. `userKey`: for an index that begins with the
 * owner.
 */
export async function* passes<Row extends { key: number }>(
  reader: Reader,
  table: string,
  { parameters, sql }: SqlCondition,
  { columns = 'key', userKey }: { columns?: string; userKey?: number } = {},
): AsyncGenerator<Row[]> {
  const owned = userKey === undefined ? '' : 'user_key = ? and '
  const statement = `select ${columns}, (${sql}) as fits from ${table} where ${owned}key < ? and ${untilSpent(sql, LOOK_EVERY)} order by key desc limit ${MATCHES}`
  for (let below: number | undefined = Infinity; below !== undefined;) {
    const keys = [...parameters, ...(userKey === undefined ? [] : [userKey]), below, ...parameters]
    const slice: { rows: Row[]; cut: Row | undefined } = await readSlice<Row>(reader, raw(statement, keys))
    yield slice.rows
    below = (slice.cut ?? (slice.rows.length === MATCHES ? slice.rows.at(-1) : undefined))?.key
  }
}

/**
 * A free word is the beginning of an address or a part of the subject. A word that looks like an address is searched
 * only among addresses.
 */
async function withWord(word: string, place: SearchPlace): Promise<Term> {
  if (isWhole(word)) return toRecipient(place.reader, word)
  const addresses = toBeginning(place.reader, word)
  if (word.includes('@')) return addresses
  const subjects = await holdsOrCampaign('subject', 'subject', word, place)
  return {
    by: 'reading',
    ofSubject: true,
    sql: `${addresses.sql} or ${subjects.sql}`,
    parameters: [...addresses.parameters, ...subjects.parameters],
  }
}
