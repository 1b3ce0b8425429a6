// The search over mails: to: from: subject: status: domain: campaign: agent: before: after:, and free words, which
// match addresses and subjects. Each term becomes a condition in SQL on `outbound_emails`.
import { refuse } from '../base/errors.ts'
import { EMAIL_STATUSES, type EmailStatus } from '../states/outbound-email.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'

export interface Condition {
  sql: string
  parameters: (string | number)[]
}

/** Matches that are looked up by the index of addresses; more are tried mail by mail, the newest first. */
const FEW = 2000
/** Behind every character that an address may hold. */
const LAST = '\u{10ffff}'

const like = (text: string): string => `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`

/** Subjects and senders of a campaign's mail stand with the campaign. */
const holdsOrCampaign = (column: string, ofCampaign: string, text: string): Condition => ({
  sql: `"${column}" like ? escape '\\' or campaign_key in (select key from campaigns where ${ofCampaign} like ? escape '\\')`,
  parameters: [like(text), like(text)],
})

/** Milliseconds of "2026-11-01" or a whole timestamp. Throws 400. */
function moment(text: string): number {
  const at = Date.parse(text)
  if (Number.isNaN(at))
    throw refuse('unsupported_filter', `"${text}" is no time such as 2026-11-01 or 2026-11-01T12:00:00Z.`, PARAMETER)
  return at
}

/** A status that mails have. Throws 400. */
function status(text: string): EmailStatus {
  const known = EMAIL_STATUSES.find((each) => each === text)
  if (known) return known
  const names = EMAIL_STATUSES.join(', ')
  throw refuse('unsupported_filter', `"${text}" is no status of a mail; there are ${names}.`, PARAMETER)
}

const PARAMETER = { parameter: 'filter[search]' }

/** What may stand before a colon. */
const TERMS: Record<string, (value: string, reader: Reader) => Condition> = {
  to: (value, reader) => (isWhole(value) ? toRecipient(value) : toBeginning(reader, value.toLowerCase())),
  from: (value) => holdsOrCampaign('from', 'from_address', value),
  subject: (value) => holdsOrCampaign('subject', 'subject', value),
  status: (value) => ({ sql: 'status = ?', parameters: [status(value.toLowerCase())] }),
  domain: (value) => ({
    sql: 'domain_key in (select key from domains where name = ? or id = ?)',
    parameters: [value.toLowerCase(), value],
  }),
  campaign: (value) => ({
    sql: `campaign_key in (select key from campaigns where id = ? or name like ? escape '\\')`,
    parameters: [value, like(value)],
  }),
  agent: (value) => ({ sql: 'agent_id = ?', parameters: [value] }),
  after: (value) => ({ sql: 'created_at >= ?', parameters: [moment(value)] }),
  before: (value) => ({ sql: 'created_at < ?', parameters: [moment(value)] }),
}

const isWhole = (address: string): boolean => /^[^@\s]+@[^@\s]+\.[^@\s]+$/.test(address)

/** Mails to an address, whatever its case and whichever role it has. */
const toRecipient = (address: string): Condition => ({
  sql: 'key in (select email_key from deliveries where lower(address) = ?)',
  parameters: [address.toLowerCase()],
})

/** "subject:"two words"", or a word. */
const TERM = /(?:([a-z]+):)?(?:"([^"]*)"|(\S+))/gi
const MAX_TERMS = 10

/** What a search asks for: terms such as to:ann@there.test, and free words. Throws 400. */
export function searched(reader: Reader, text: string): Condition {
  const conditions: Condition[] = []
  for (const [whole, key, quoted, plain] of text.matchAll(TERM)) {
    const value = quoted ?? plain ?? ''
    const term = key === undefined ? undefined : key.toLowerCase()
    if (term !== undefined && Object.hasOwn(TERMS, term)) conditions.push(TERMS[term]!(value, reader))
    else if (whole !== '') conditions.push(withWord(reader, quoted ?? whole))
    if (conditions.length > MAX_TERMS)
      throw refuse('unsupported_filter', `A search takes at most ${MAX_TERMS} words and terms.`, PARAMETER)
  }
  return {
    sql: conditions.length === 0 ? 'true' : conditions.map(({ sql }) => `(${sql})`).join(' and '),
    parameters: conditions.flatMap(({ parameters }) => parameters),
  }
}

/** Mails to addresses that begin with the text. */
function toBeginning(reader: Reader, text: string): Condition {
  const range = [text, text + LAST]
  const { count } = reader.first(
    raw<{ count: number }>(
      `select count(*) as count from (select 1 from deliveries where lower(address) >= ? and lower(address) < ? limit ${FEW + 1})`,
      range,
    ),
  )!
  return count <= FEW
    ? {
        sql: 'key in (select email_key from deliveries where lower(address) >= ? and lower(address) < ?)',
        parameters: range,
      }
    : {
        sql: `exists (select 1 from deliveries v where v.email_key = outbound_emails.key and lower(v.address) >= ? and lower(v.address) < ?)`,
        parameters: range,
      }
}

/**
 * A free word begins an address or stands in the subject; what looks like an address is looked for among addresses
 * alone.
 */
function withWord(reader: Reader, word: string): Condition {
  if (isWhole(word)) return toRecipient(word)
  const addresses = toBeginning(reader, word.toLowerCase())
  if (word.includes('@')) return addresses
  const subjects = holdsOrCampaign('subject', 'subject', word)
  return { sql: `${addresses.sql} or ${subjects.sql}`, parameters: [...addresses.parameters, ...subjects.parameters] }
}
