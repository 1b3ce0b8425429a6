// Suppression lists from other programs: the meaning of their columns and words.
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { contactAddress } from '../campaigns/contacts.ts'
import { plain, standingOf, type Standing } from '../campaigns/standing.ts'
import type { Reason, Suppression } from '../suppressions/suppressions.ts'
import { printable } from '../base/printable.ts'
import { EMAIL, standingIn, standingsOf, type Standings } from './column-names.ts'

export const SOURCES = ['ses', 'mailgun', 'sendgrid', 'postmark', 'brevo', 'mailchimp', 'listmonk'] as const
export type SourceName = (typeof SOURCES)[number]
export const REASONS = ['hard_bounce', 'complaint', 'unsubscribe', 'list_import'] as const

export interface Entry {
  email: string
  reason: Reason
  scope: Suppression['scope']
  expires_at: number | null
}

/**
 * Words for reasons, from Postrider and from seven other programs; null: not permanent, so the entry is not imported.
 */
const WORDS: Record<string, Reason | null> = {
  // Postrider.
  hardbounce: 'hard_bounce',
  complaint: 'complaint',
  unsubscribe: 'unsubscribe',
  manual: 'manual',
  listimport: 'list_import',
  softbounce: 'soft_bounce',
  // Mandrill.
  unsub: 'unsubscribe',
  custom: 'list_import',
  invalid: 'hard_bounce',
  invalidsender: null,
  testmodelimit: null,
  rule: null,
  // Postmark.
  spamcomplaint: 'complaint',
  manualsuppression: 'list_import',
  // Brevo.
  adminblocked: 'list_import',
  contactflaggedasspam: 'complaint',
  unsubscribedviama: 'unsubscribe',
  unsubscribedviaemail: 'unsubscribe',
  unsubscribedviaapi: 'unsubscribe',
}

const BY_STANDING: Record<Standing, Reason | null> = {
  subscribed: null,
  unconfirmed: null,
  unsubscribed: 'unsubscribe',
  blocked: 'list_import',
  bounced: 'hard_bounce',
  complained: 'complaint',
}

/** The reason that a word means; undefined for an unknown word. */
function reasonOf(word: string): Reason | null | undefined {
  const known = Object.hasOwn(WORDS, plain(word)) ? WORDS[plain(word)] : undefined
  if (known !== undefined) return known
  const standing = standingOf(word)
  return standing === undefined ? undefined : BY_STANDING[standing]
}

const scopeOf = (reason: Reason): Suppression['scope'] => (reason === 'unsubscribe' ? 'marketing' : 'all')

/** Columns with an exchanger's reply: a code, or a text that begins with one. */
const REPLIES = new Set(
  'status code smtpcode smtpstatus smtpreply smtpresponse statuscode errorcode bouncecode replycode enhancedcode enhancedstatuscode dsn dsncode dsnstatus diagnosticcode diagnostic response error reason bouncereason'.split(
    ' ',
  ),
)
/** A temporary reply (RFC 5321 §4.2.1, RFC 3463 §2): the address still exists. */
const FOR_NOW = /^(?:smtp;\s*)?(?:4(?:xx)?$|4\d\d(?![\d.])|4\.\d{1,3}\.\d{1,3}(?![\d.]))/i

export interface SuppressionColumns {
  headless: boolean
  titles: string[]
  email: number
  /** Column indexes by simplified title. */
  at: ReadonlyMap<string, number>
  standings: Standings
  /** Columns with the replies of exchangers; none when --reason gives the reason. */
  replies: readonly number[]
  /** The reason for the whole file. */
  all: Reason | undefined
}

/**
 * The reason of each export file of a program, by its columns and its name; `no` with an explanation when the file is
 * not a suppression list.
 */
const KINDS: Partial<
  Record<SourceName, (has: (title: string) => boolean, file: string) => Reason | { no: string } | undefined>
> = {
  mailgun: (has, file) =>
    has('code') || has('error') || /bounce/i.test(file)
      ? 'hard_bounce'
      : has('tags') || has('tag') || /unsub/i.test(file)
        ? 'unsubscribe'
        : 'complaint',
  sendgrid: (has, file) => {
    if (/block/i.test(file))
      return {
        no: 'SendGrid goes on mailing what it lists as blocks; to suppress them all the same say --reason list_import',
      }
    if (/bounce|invalid/i.test(file) || has('reason')) return 'hard_bounce'
    if (/spam/i.test(file) || has('ip')) return 'complaint'
    return /unsub|group|global/i.test(file) ? 'unsubscribe' : undefined
  },
}

export interface SuppressionWishes {
  from?: SourceName | undefined
  reason?: (typeof REASONS)[number] | undefined
}

/** The meaning of the columns, from the first record. Throws an OperatorError. */
export function suppressionColumns(
  source: { name: string; file: string },
  first: readonly string[],
  { from, reason }: SuppressionWishes,
): SuppressionColumns {
  const titles = first.map((title) => title.trim())
  const words = titles.map(plain)
  const wrong = (sentence: string): never => {
    throw new OperatorError(`${source.name} ${sentence} Nothing was imported.`)
  }
  // A list without titles, as SES imports it: addresses, or addresses and reasons.
  if (contactAddress(titles[0]!) !== undefined && titles.length <= 2) {
    const at = new Map(titles.length === 2 ? [['reason', 1]] : [])
    const all =
      reason ?? (titles.length === 2 ? undefined : (BY_STANDING[standingsOf([], source.file).whole] ?? 'list_import'))
    return {
      headless: true,
      titles: ['email', 'reason'].slice(0, titles.length),
      email: 0,
      at,
      standings: standingsOf([], ''),
      replies: [],
      all,
    }
  }
  const emails = words.flatMap((word, index) => (EMAIL.has(word) ? [index] : []))
  const [email] = emails
  if (email === undefined)
    return wrong(
      `has no column of addresses, such as "email"; its first line is: ${printable(titles.slice(0, 8).join(', ')).slice(0, 200)}.`,
    )
  const at = new Map(words.map((word, index) => [word, index] as const))
  // SendGrid's "status" and "reason" are the exchanger's reply.
  const texts = from === 'sendgrid' ? new Set(['status', 'reason']) : new Set<string>()
  const standings = standingsOf(
    titles.map((title) => (texts.has(plain(title)) ? '' : title)),
    source.file,
  )
  for (const text of texts) at.delete(text)
  const whole = BY_STANDING[standings.whole] ?? undefined
  const kind = reason ?? whole ?? (from && KINDS[from]?.((title) => words.includes(title), source.file))
  if (typeof kind === 'object') return wrong(`is no list of suppressions: ${kind.no}.`)
  const silent =
    kind === undefined &&
    !at.has('reason') &&
    !at.has('suppressionreason') &&
    !at.has('reasoncode') &&
    standings.columns.length === 0
  if (silent && from !== undefined)
    return wrong(`does not say why its addresses are suppressed; say it with --reason ${REASONS.join('|')}.`)
  const replies = reason ? [] : words.flatMap((word, index) => (REPLIES.has(word) ? [index] : []))
  return { headless: false, titles, email, at, standings, replies, all: kind ?? (silent ? 'list_import' : undefined) }
}

/** One record as an entry; null when it need not be kept; or the error in it. */
export function entryOf(
  record: readonly string[],
  columns: SuppressionColumns,
  now: number,
): Entry | null | { problem: string } {
  const { all, at, email: place, replies, standings, titles } = columns
  if (record.length !== titles.length)
    return { problem: `has ${record.length} columns, the first line has ${titles.length}` }
  const text = record[place]!.trim()
  if (text === '') return { problem: 'has no email address' }
  const email = contactAddress(text)
  if (email === undefined) return { problem: `"${printable(text).slice(0, 320)}" is not an email address` }
  const cell = (name: string): string => (at.has(name) ? record[at.get(name)!]!.trim() : '')
  const expiry = timeOf(cell('expiresat'))
  if (expiry === undefined)
    return { problem: `expires_at says "${printable(cell('expiresat'))}", which is no time such as ${iso(now)}` }
  const why = all ?? saidReason(record, cell, standings)
  if (typeof why === 'object' && why !== null) return why
  if (why === null || (expiry !== null && expiry <= now)) return null
  // Many programs list blocks and soft bounces among the bounces.
  if (why === 'hard_bounce' && replies.some((index) => FOR_NOW.test(record[index]!.trim()))) return null
  if (why === 'soft_bounce' && expiry === null) return null
  const scope = cell('scope')
  if (scope !== '' && scope !== 'all' && scope !== 'marketing')
    return { problem: `scope says "${printable(scope)}", not all or marketing` }
  return { email, reason: why, scope: scope === '' ? scopeOf(why) : scope, expires_at: expiry }
}

/** The reason of a record: from the reason column, else from the status columns. */
function saidReason(
  record: readonly string[],
  cell: (name: string) => string,
  standings: Standings,
): Reason | null | { problem: string } {
  const word = cell('reasoncode') || cell('suppressionreason') || cell('reason')
  if (word !== '') {
    // Postmark has one name for recipients who unsubscribed and for recipients whom the sender added.
    if (plain(word) === 'manualsuppression' && plain(cell('origin')) === 'recipient') return 'unsubscribe'
    const reason = reasonOf(word)
    return reason === undefined
      ? { problem: `gives "${printable(word).slice(0, 60)}" as its reason, which is not understood` }
      : reason
  }
  if (standings.columns.length === 0) return { problem: 'gives no reason' }
  const standing = standingIn(record, standings)
  return typeof standing === 'object' ? { problem: standing.reason } : BY_STANDING[standing]
}

/** null: there is no time. undefined: it is not readable. */
function timeOf(text: string): number | null | undefined {
  if (text === '') return null
  const at = Date.parse(/^\d{4}-\d\d-\d\d \d/.test(text) ? `${text.replace(' ', 'T')}Z` : text)
  return Number.isNaN(at) ? undefined : at
}
