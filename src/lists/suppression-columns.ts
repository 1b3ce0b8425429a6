// Suppression lists: the meaning of each column and of each record.
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { contactAddress } from '../campaigns/contacts.ts'
import type { Entry } from '../suppressions/import-with-status.ts'
import type { Reason, Suppression } from '../suppressions/suppressions.ts'
import { forTerminal } from '../base/clean-text.ts'
import { addressIn, checkStatus, mapColumns, type FieldMap } from './columns.ts'
import type { Kind } from './import.ts'
import { SUPPRESSORS, type Suppressor, type SuppressorName } from './programs.ts'
import { StatusLike } from './status-like.ts'
import {
  emailColumns,
  plain,
  reasonFor,
  reasonOf,
  REPLIES,
  standingIn,
  standingsOf,
  type Standings,
  type Wrong,
} from './words.ts'

export const REASONS = ['hard_bounce', 'complaint', 'unsubscribe', 'list_import'] as const

/** The default scope of a reason. */
export const scopeOf = (reason: Reason): Suppression['scope'] => (reason === 'unsubscribe' ? 'marketing' : 'all')

/** Columns of reasons, the clearest first. */
const REASON_TITLES = ['reasoncode', 'suppressionreason', 'reason']
/** A temporary reply (RFC 5321 §4.2.1, RFC 3463 §2): the address still exists. */
const FOR_NOW = /^(?:smtp;\s*)?(?:4(?:xx)?$|4\d\d(?![\d.])|4\.\d{1,3}\.\d{1,3}(?![\d.]))/i

export interface SuppressionColumns {
  headless: boolean
  titles: string[]
  email: number
  /** Column indexes by simplified title. */
  at: ReadonlyMap<string, number>
  standings: Standings
  /** Columns with replies of receiving servers. Empty with --reason. */
  replies: readonly number[]
  /** The reason for the whole file. */
  all: Reason | undefined
  /** The reason of entries in a file without reasons. A column "type" takes precedence. */
  silent: Reason | undefined
}

export interface SuppressionWishes {
  from?: SuppressorName | undefined
  /** The reason of all entries. Overrides the reasons in the file. */
  reason?: (typeof REASONS)[number] | undefined
  /** The reason of entries in a file without reasons. */
  silent?: Reason
  /** Column titles by field: email, reason or status. Other columns are ignored. */
  map?: FieldMap
  /** The file came from a page or the API, which have no --reason. */
  page?: true
}

/** Reads a suppression list. */
export const suppressionsIn =
  (wishes: SuppressionWishes, now: number): Kind<SuppressionColumns, Entry> =>
  (source, first) => {
    const titles = mappedTitles(
      source,
      first.map((title) => title.trim()),
      wishes.map ?? new Map(),
    )
    const columns = suppressionColumns(source, titles, wishes)
    const like = new StatusLike(titles, openIn(columns, first), columns.standings.columns.length > 0)
    return {
      columns,
      end: () =>
        checkStatus(source, like.found, 'status', () =>
          wishes.page
            ? 'Rename it to "status", "subscribed" or "unsubscribed", or remove it.'
            : 'Map it with --map status=COLUMN, subscribed=COLUMN or unsubscribed=COLUMN (note=COLUMN to ignore it), or set --reason.',
        ),
      read(record) {
        like.see(record)
        return entryOf(record, columns, now)
      },
    }
  }

/** The meaning of the columns, from the first record. Throws an OperatorError. */
function suppressionColumns(
  source: { name: string; file: string },
  titles: string[],
  { from, page, reason, silent }: SuppressionWishes,
): SuppressionColumns {
  const wrong = (sentence: string): never => {
    throw new OperatorError(`${source.name} ${sentence} Nothing was imported.`)
  }
  // A list without titles, as SES imports it: addresses, or addresses and reasons.
  if (contactAddress(titles[0]!) !== undefined && titles.length <= 2)
    return headless(source.file, titles.length, reason, silent ?? 'list_import')
  const words = titles.map(plain)
  const [email] = emailColumns(titles, [...titles.keys()])
  if (email === undefined)
    return wrong(
      `has no email address column, such as "email"; its first line is: ${forTerminal(titles.slice(0, 8).join(', ')).slice(0, 200)}.`,
    )
  const at = new Map(words.map((word, index) => [word, index] as const))
  const program: Suppressor = from === undefined ? {} : SUPPRESSORS[from]
  const texts = program.replies ?? []
  const standings = standingsOf(
    titles.map((title) => (texts.includes(plain(title)) ? '' : title)),
    source.file,
  )
  for (const text of texts) at.delete(text)
  const whole = reasonFor(standings.whole) ?? undefined
  const kind = reason ?? whole ?? program.kind?.((title) => words.includes(title), source.file)
  if (typeof kind === 'object')
    return wrong(
      `is not a suppression list: ${kind.no}${page ? '' : '; to suppress them anyway, add --reason list_import'}.`,
    )
  const says = standings.columns.length > 0 || REASON_TITLES.some((title) => at.has(title))
  if (kind === undefined && !says && from !== undefined && silent === undefined)
    return wrong(
      `has no suppression reasons; ${page ? 'add a column "reason" with' : 'set one with --reason'} ${REASONS.join('|')}.`,
    )
  const replies = reason ? [] : words.flatMap((word, index) => (REPLIES.has(word) ? [index] : []))
  return {
    headless: false,
    titles,
    email,
    at,
    standings,
    replies,
    all: kind,
    silent: says ? undefined : (silent ?? 'list_import'),
  }
}

/** The titles, with the field names of --map instead of the titles that it maps. */
function mappedTitles(source: { name: string }, titles: string[], map: FieldMap): string[] {
  const places = new Map([...mapColumns(source, titles, map)].flatMap(([field, all]) => all.map((at) => [at, field])))
  return titles.map((title, index) => places.get(index) ?? title)
}

/** Returns the columns without a meaning. Empty if each entry has its reason, and without the columns of --map. */
function openIn(
  { all, at, email, replies, standings, titles }: SuppressionColumns,
  first: readonly string[],
): number[] {
  if (all !== undefined || REASON_TITLES.some((title) => at.has(title))) return []
  const used = new Set([email, ...replies, ...standings.columns.map(({ index }) => index)])
  for (const title of ['type', 'origin', 'scope', 'expiresat']) used.add(at.get(title) ?? email)
  return titles.flatMap((title, index) => (used.has(index) || title !== first[index]?.trim() ? [] : [index]))
}

function headless(file: string, columns: number, reason: Reason | undefined, silent: Reason): SuppressionColumns {
  const whole = reasonFor(standingsOf([], file).whole) ?? silent
  return {
    headless: true,
    titles: ['email', 'reason'].slice(0, columns),
    email: 0,
    at: new Map(columns === 2 ? [['reason', 1]] : []),
    standings: standingsOf([], ''),
    replies: [],
    all: reason ?? (columns === 2 ? undefined : whole),
    silent: undefined,
  }
}

/** Returns a record as an entry, null if it is not to be suppressed, or the error in it. */
function entryOf(record: readonly string[], columns: SuppressionColumns, now: number): Entry | null | Wrong {
  const { all, at, email: place, replies, silent, standings, titles } = columns
  const email = addressIn(record, place, titles.length)
  if (typeof email === 'object') return email
  const cell = (name: string): string => (at.has(name) ? record[at.get(name)!]!.trim() : '')
  const expiry = timeOf(cell('expiresat'))
  if (expiry === undefined)
    return {
      problem: `has the expires_at "${forTerminal(cell('expiresat'))}", which is not a time such as ${iso(now)}`,
    }
  const why =
    all ??
    timedReason(record, standings) ??
    (silent ? reasonOf(cell('type')) || silent : saidReason(record, cell, standings))
  if (typeof why === 'object' && why !== null) return why
  if (why === null || (expiry !== null && expiry <= now)) return null
  // Many services list blocks and soft bounces among the bounces.
  if (why === 'hard_bounce' && replies.some((index) => FOR_NOW.test(record[index]!.trim()))) return null
  if (why === 'soft_bounce' && expiry === null) return null
  const scope = cell('scope')
  if (scope !== '' && scope !== 'all' && scope !== 'marketing')
    return { problem: `has the scope "${forTerminal(scope)}" instead of all or marketing` }
  return { email, reason: why, scope: scope === '' ? scopeOf(why) : scope, expires_at: expiry }
}

/** The reason of a record with an unsubscribe time: unknown values in other status columns do not invalidate it. */
function timedReason(record: readonly string[], { columns }: Standings): Reason | undefined {
  const standing = standingIn(record, { whole: 'subscribed', columns: columns.filter(({ filled }) => filled) })
  return typeof standing === 'object' ? undefined : (reasonFor(standing) ?? undefined)
}

/** The reason of a record: from the reason column, or else from the status columns. */
function saidReason(
  record: readonly string[],
  cell: (name: string) => string,
  standings: Standings,
): Reason | null | Wrong {
  const word = REASON_TITLES.map(cell).find((said) => said !== '') ?? ''
  if (word !== '') {
    // Postmark uses one name for unsubscribed recipients and for those that the sender added.
    if (plain(word) === 'manualsuppression' && plain(cell('origin')) === 'recipient') return 'unsubscribe'
    const reason = reasonOf(word)
    return reason === undefined ? { problem: `has the unknown reason "${forTerminal(word).slice(0, 60)}"` } : reason
  }
  // Every entry of a suppression list is suppressed, even without a reason.
  if (standings.columns.length === 0) return 'list_import'
  const standing = standingIn(record, standings)
  return typeof standing === 'object' ? standing : reasonFor(standing)
}

/** Returns null for no time, undefined for an invalid one. */
function timeOf(text: string): number | null | undefined {
  if (text === '') return null
  const at = Date.parse(/^\d{4}-\d\d-\d\d \d/.test(text) ? `${text.replace(' ', 'T')}Z` : text)
  return Number.isNaN(at) ? undefined : at
}
