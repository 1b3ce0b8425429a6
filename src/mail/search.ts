// The search over mails: to: from: subject: status: domain: receiver: campaign: agent: before: after:, and free words,
// which match addresses and subjects. Each term becomes a condition in SQL on `outbound_emails`.
//
// Words are searched in one pass over the account's mails, the newest first, which ends at FEW matches. The pass goes
// in slices, so that the main thread can do other work between them. Subjects are read from an index that holds only
// subjects, in less than half the time that the table takes. The index does not split subjects into words: so parts of
// words are found too, and an erased address is erased there as well.
import { must, refuse } from '../base/errors.ts'
import { EMAIL_STATUSES, type EmailStatus } from '../states/outbound-email.ts'
import { EXTENSION } from '../jsonapi/fields.ts'
import type { Filter } from '../jsonapi/resource.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { toReceiver } from '../reputation/waiting-receivers.ts'

export interface SearchCondition {
  sql: string
  parameters: (string | number)[]
  /** So few mails match that they are looked up one by one. */
  selective?: true
  /** The index of statuses and times of creation has all columns that the condition needs. */
  ofTimes?: true
}

interface Term extends SearchCondition {
  /** The index of subjects has all columns that the term needs. */
  ofSubject?: true
  /** How the matching mails are found, if no index finds them in the order of a list. */
  by?: 'address' | 'reading'
}

/** The most matches that are looked up by their keys; further matches are searched mail by mail. */
const FEW = 2000
/** The most addresses that are looked up by their index; for more, each mail is checked. */
const FEW_ADDRESSES = 20_000
/**
 * The most mails that are read at once: this takes 50 ms, and 20 ms from the index of subjects. With smaller slices the
 * whole search would take too long on a busy server.
 */
const SLICE = 250_000
/** Sorts after every character that an address may have. */
const LAST = '\u{10ffff}'

const like = (text: string): string => `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`

/** A text in a column of the mail; for a campaign's mail, subject and sender are columns of the campaign. */
const holdsOrCampaign = (column: string, ofCampaign: string, text: string): Term => ({
  by: 'reading',
  sql: `"${column}" like ? escape '\\' or campaign_key in (select key from campaigns where ${ofCampaign} like ? escape '\\')`,
  parameters: [like(text), like(text)],
})

/** Milliseconds of "2026-11-01" or a whole timestamp. Throws 400. */
function moment(text: string): number {
  const at = Date.parse(text)
  if (Number.isNaN(at))
    throw refuse('unsupported_filter', `"${text}" is not a time such as 2026-11-01 or 2026-11-01T12:00:00Z.`, PARAMETER)
  return at
}

/** A status that mails have. Throws 400. */
function status(text: string): EmailStatus {
  const known = EMAIL_STATUSES.find((each) => each === text)
  if (known) return known
  const names = EMAIL_STATUSES.join(', ')
  throw refuse('unsupported_filter', `"${text}" is not a status of a mail; there are ${names}.`, PARAMETER)
}

const PARAMETER = { parameter: 'filter[search]' }

/** The terms by the name before the colon. */
const TERMS: Record<string, (value: string, reader: Reader, userKey: number) => Term> = {
  to: (value, reader) =>
    value.startsWith('@')
      ? toDomain(value.slice(1))
      : isWhole(value)
        ? toRecipient(value)
        : toBeginning(reader, value.toLowerCase()),
  from: (value) => holdsOrCampaign('from', 'from_address', value),
  subject: (value) => ({ ...holdsOrCampaign('subject', 'subject', value), ofSubject: true }),
  status: (value) => ({ ofTimes: true, sql: 'status = ?', parameters: [status(value.toLowerCase())] }),
  domain: (value) => ({
    sql: 'domain_key in (select key from domains where name = ? or id = ?)',
    parameters: [value.toLowerCase(), value],
  }),
  receiver: (value, reader, userKey) => {
    const domain = toDomain(value.replace(/^@/, ''))
    const receiver = toReceiver(reader, userKey, value.replace(/^@/, ''))
    if (!receiver) return domain
    // What was never tried, or went elsewhere before, is found by its recipient.
    const { parameters, sql } = receiver
    return { by: 'reading', sql: `${sql} or ${domain.sql}`, parameters: [...parameters, ...domain.parameters] }
  },
  campaign: (value) =>
    /^(?:yes|no)$/i.test(value)
      ? { sql: `campaign_key is ${value.toLowerCase() === 'yes' ? 'not ' : ''}null`, parameters: [] }
      : {
          sql: `campaign_key in (select key from campaigns where id = ? or name like ? escape '\\')`,
          parameters: [value, like(value)],
        },
  agent: (value) => ({ sql: 'agent_id = ?', parameters: [value] }),
  after: (value) => ({ ofTimes: true, sql: 'created_at >= ?', parameters: [moment(value)] }),
  before: (value) => ({ ofTimes: true, sql: 'created_at < ?', parameters: [moment(value)] }),
}

const isWhole = (address: string): boolean => /^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(address)

/** Mails to an address in upper or lower case, in the role to, cc or bcc. */
const toRecipient = (address: string): Term => ({
  by: 'address',
  sql: 'key in (select email_key from deliveries where lower(address) = ?)',
  parameters: [address.toLowerCase()],
})

/** Mails whose first recipient is at a domain. */
const toDomain = (domain: string): Term => ({
  by: 'reading',
  sql: `"to" like ? escape '\\' or "to" like ? escape '\\'`,
  parameters: [like(`@${domain}`).slice(0, -1), like(`@${domain}>`).slice(0, -1)],
})

/** The names before the colon, as sentences list them. */
const NAMES = Object.keys(TERMS)
  .map((name) => `${name}:`)
  .join(', ')

/** "subject:"two words"", or a word. */
export const TERM = /(?:([a-z]+):)?(?:"([^"]*)"|(\S+))/gi
const MAX_TERMS = 10

/** The condition for a search of an account's mails: terms such as to:ann@there.test, and free words. Throws 400. */
export async function searched(reader: Reader, userKey: number, text: string): Promise<SearchCondition> {
  const conditions: Term[] = []
  for (const [whole, key, quoted, plain] of text.matchAll(TERM)) {
    const value = quoted ?? plain ?? ''
    const term = key === undefined ? undefined : key.toLowerCase()
    if (term === undefined) conditions.push(withWord(reader, value))
    else if (Object.hasOwn(TERMS, term)) conditions.push(TERMS[term]!(value, reader, userKey))
    else
      throw refuse(
        'unsupported_filter',
        `"${key}:" is not a search word; use ${NAMES}. In quotes, "${whole.replaceAll('"', '')}" is searched as text.`,
        PARAMETER,
      )
    if (conditions.length > MAX_TERMS)
      throw refuse('unsupported_filter', `A search takes at most ${MAX_TERMS} words and terms.`, PARAMETER)
  }
  const all: SearchCondition = {
    sql: conditions.length === 0 ? 'true' : conditions.map(({ sql }) => `(${sql})`).join(' and '),
    parameters: conditions.flatMap(({ parameters }) => parameters),
    ...(conditions.every(({ ofTimes }) => ofTimes) ? { ofTimes: true } : {}),
  }
  const by = (way: Term['by']): boolean => conditions.some((each) => each.by === way)
  return by('address')
    ? byKeys(reader, userKey, all, TABLE, Infinity)
    : by('reading')
      ? byKeys(reader, userKey, all, conditions.every(({ ofSubject }) => ofSubject) ? SUBJECTS : TABLE, SLICE)
      : all
}

/** The search as a filter of the API. */
export const search: Filter = {
  column: 'subject',
  sql: (value, reader, userKey) => searched(reader, userKey, value),
  about: `Only those that fit: to:, from:, subject:, status:, domain: (the sender’s), receiver: (the domain of the recipient, or a receiver as the statistics name it), campaign: (a name, an id, yes or no), agent:, before:, after: and free words, which begin a recipient’s address or stand in the subject. ${EXTENSION}`,
}

/** An account's mails, read from the table in the order of its rows, or from the index of subjects. */
const TABLE = 'outbound_emails where +user_key = ?'
const SUBJECTS = 'outbound_emails indexed by outbound_emails_words where user_key = ?'

/**
 * A condition on the keys of the matching mails. With the first condition in the order of a list, SQLite would look up
 * each mail separately by an index; here it reads the table in the order of its rows, or goes from addresses to mails.
 */
async function byKeys(
  reader: Reader,
  userKey: number,
  { parameters, sql }: SearchCondition,
  mails: typeof TABLE | typeof SUBJECTS,
  slice: number,
): Promise<SearchCondition> {
  const found: { key: number }[] = []
  for await (const { bottom, top } of sliced(reader, slice)) {
    found.push(
      ...reader.all(
        raw<{ key: number }>(`select key from ${mails} and key > ? and key <= ? and ${sql} order by key desc limit ?`, [
          userKey,
          bottom,
          top,
          ...parameters,
          FEW + 1 - found.length,
        ]),
      ),
    )
    if (found.length > FEW) break
  }
  const keys = JSON.stringify(found.map(({ key }) => key))
  const those = 'key in (select value from json_each(?))'
  return found.length <= FEW
    ? { sql: those, parameters: [keys], selective: true }
    : {
        sql: `${those} or (key < ? and ${sql})`,
        parameters: [keys, must(found.at(-1), 'The last mail that was found').key, ...parameters],
      }
}

/** The keys of all mails in slices, the newest first; the main thread can do other work between two slices. */
export async function* sliced(reader: Reader, slice = SLICE): AsyncGenerator<{ bottom: number; top: number }> {
  const { newest } = reader.one(raw<{ newest: number | null }>('select max(key) as newest from outbound_emails'))
  for (let top = newest ?? 0; top > 0; top -= slice) {
    if (top !== newest) await new Promise((resolve) => void setImmediate(resolve))
    yield { bottom: Math.max(0, top - slice), top }
  }
}

/** Mails to addresses that begin with the text. */
function toBeginning(reader: Reader, text: string): Term {
  const range = [text, text + LAST]
  const { count } = reader.one(
    raw<{ count: number }>(
      `select count(*) as count from (select 1 from deliveries where lower(address) >= ? and lower(address) < ? limit ${FEW_ADDRESSES + 1})`,
      range,
    ),
  )
  return count <= FEW_ADDRESSES
    ? {
        by: 'address',
        sql: 'key in (select email_key from deliveries where lower(address) >= ? and lower(address) < ?)',
        parameters: range,
      }
    : {
        by: 'reading',
        sql: `exists (select 1 from deliveries v where v.email_key = outbound_emails.key and lower(v.address) >= ? and lower(v.address) < ?)`,
        parameters: range,
      }
}

/**
 * A free word is the beginning of an address or a part of the subject; a word that looks like an address is searched
 * only among addresses.
 */
function withWord(reader: Reader, word: string): Term {
  if (isWhole(word)) return toRecipient(word)
  const addresses = toBeginning(reader, word.toLowerCase())
  if (word.includes('@')) return addresses
  const subjects = holdsOrCampaign('subject', 'subject', word)
  return {
    by: 'reading',
    ofSubject: true,
    sql: `${addresses.sql} or ${subjects.sql}`,
    parameters: [...addresses.parameters, ...subjects.parameters],
  }
}
