// The titles and words of lists of any program (D71): the one table that command, console and API read, for lists of
// people and of suppressions. Titles name the address, the name, and columns about a contact's standing; words stand in
// such columns, or give the reason of a suppression.
import { forTerminal } from '../base/clean-text.ts'
import { graver, STANDINGS, SUPPRESSIONS, type Standing } from '../campaigns/import-with-status.ts'
import type { Reason } from '../suppressions/suppressions.ts'

/** Lower case, without spaces and punctuation between words, so that "E-mail", "e_mail" and "EMAIL:" are equal. */
export const plain = (text: string): string => text.toLowerCase().replaceAll(/[\s_.:*-]+/g, '')

/** Titles in their plain form. */
const titles = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/))

const EMAIL = titles(`
  email emailaddress mail mailaddress address emailadresse mailadresse adressemail adresseemail
  correoelectronico correo subscriberemail contactemail recipient`)
export const NAME = titles('name fullname displayname')
export const FIRST = titles('firstname fname givenname forename vorname prenom prénom nombre')
export const LAST = titles('lastname lname surname familyname nachname nom apellido apellidos cognome')

/** Columns with words such as "active". */
const STATUS = titles(`
  status subscriptionstatus subscriberstatus emailstatus emailsubscriptionstatus emailmarketing
  emailmarketingstatus emailmarketingconsent marketingstatus`)

/** Columns with yes, no or a date. */
const FLAGS: readonly [{ yes: Standing; no?: Standing }, ReadonlySet<string>][] = [
  [
    { yes: 'subscribed', no: 'unsubscribed' },
    titles('subscribed issubscribed optedin acceptsmarketing acceptsemailmarketing'),
  ],
  [
    { yes: 'unsubscribed' },
    titles(`
    unsubscribed isunsubscribed unsubscribedat unsubscribedon unsubscribeddate unsubscribedate
    unsubscribedfromallemail optout optedout emailoptout hasoptedoutofemail`),
  ],
  [
    { yes: 'blocked' },
    titles(`
    emailblacklist emailblacklisted emailblocklist emailblocklisted blacklist blacklisted blocklist blocklisted
    blocked suppressed donotemail donotcontact`),
  ],
  [{ yes: 'bounced' }, titles('bounced hardbounced cleaned')],
  [{ yes: 'complained' }, titles('complained spam markedasspam spamreported')],
]
const BY_TITLE = new Map(FLAGS.flatMap(([meaning, all]) => [...all].map((title) => [title, meaning] as const)))

/** Columns with an exchanger's reply: a code, or a text that begins with one. */
export const REPLIES = titles(`
  status code smtpcode smtpstatus smtpreply smtpresponse statuscode errorcode bouncecode replycode enhancedcode
  enhancedstatuscode dsn dsncode dsnstatus diagnosticcode diagnostic response error reason bouncereason`)
/** Columns of the time at which somebody left, as Mailchimp names them: who has none did not leave. */
const MARKS = new Map<string, Standing>([
  ['unsubtime', 'unsubscribed'],
  ['cleantime', 'bounced'],
])

/** Names of export files whose contacts all have one standing. */
const FILES: readonly [RegExp, Standing][] = [
  [/^unsubscribed(?![a-z])/i, 'unsubscribed'],
  [/^cleaned(?![a-z])/i, 'bounced'],
  [/^non[_-]?subscribed(?![a-z])/i, 'unconfirmed'],
]

/** Words of columns of status. */
export const STANDING_WORDS: Record<Standing, readonly string[]> = {
  subscribed: ['subscribed', 'active', 'enabled', 'confirmed', 'optedin', 'optin'],
  // The person never asked for news, or never confirmed it: no mail is sent, but the person has not unsubscribed.
  // "Pending" is not in the list: its meaning is unknown, so that such a row is an error (D71).
  unconfirmed: ['unconfirmed', 'notconfirmed', 'nonsubscribed', 'notsubscribed', 'neversubscribed', 'transactional'],
  unsubscribed: ['unsubscribed', 'unsubscribe', 'unsub', 'optedout', 'optout'],
  blocked: ['blocked', 'blocklisted', 'blacklisted', 'disabled', 'suppressed', 'banned'],
  bounced: ['bounced', 'cleaned', 'hardbounced', 'hardbounce', 'bounce'],
  complained: ['complained', 'complaint', 'spam', 'spamcomplaint', 'spamreport', 'junk', 'abuse'],
}

const BY_WORD = new Map(
  STANDINGS.flatMap((standing) => STANDING_WORDS[standing].map((word) => [word, standing] as const)),
)

/** The standing for a word of a status column; undefined for an unknown word. */
const standingOf = (word: string): Standing | undefined => BY_WORD.get(plain(word))

const YES = new Set(['yes', 'y', 'true', 't', '1', 'x', 'on'])
const NO = new Set(['', 'no', 'n', 'false', 'f', '0', 'off', 'null', 'none', 'nil', 'never'])
/** A date, or a time since 1970. */
const DATE = /^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:\D.*)?$|^\d{9,13}$/

/**
 * Reads a cell of a column named after one standing, such as "unsubscribed":
 * yes, no, or a date (yes since then). Undefined: neither.
 */
function flagOf(cell: string): boolean | undefined {
  const text = cell.trim()
  if (DATE.test(text)) return !/^0+[-/.]/.test(text)
  const word = plain(text)
  return YES.has(word) ? true : NO.has(word) ? false : undefined
}

/**
 * Words for reasons, beside those for standings, from Postrider and from other programs; null: not permanent, so the
 * entry is not imported.
 */
const REASON_WORDS: Record<string, Reason | null> = {
  // Postrider.
  manual: 'manual',
  listimport: 'list_import',
  softbounce: 'soft_bounce',
  // Mandrill.
  custom: 'list_import',
  invalid: 'hard_bounce',
  invalidsender: null,
  testmodelimit: null,
  rule: null,
  // Postmark.
  manualsuppression: 'list_import',
  // Brevo.
  adminblocked: 'list_import',
  contactflaggedasspam: 'complaint',
  unsubscribedviama: 'unsubscribe',
  unsubscribedviaemail: 'unsubscribe',
  unsubscribedviaapi: 'unsubscribe',
}

/** The reason of a suppression for a standing; null: there is none. */
export const reasonFor = (standing: Standing): Reason | null => SUPPRESSIONS[standing]?.reason ?? null

/** The reason that a word means; undefined for an unknown word. */
export function reasonOf(word: string): Reason | null | undefined {
  const known = Object.hasOwn(REASON_WORDS, plain(word)) ? REASON_WORDS[plain(word)] : undefined
  if (known !== undefined) return known
  const standing = standingOf(word)
  return standing === undefined ? undefined : reasonFor(standing)
}

/** Why a row cannot be used. */
export interface Wrong {
  problem: string
}

export interface StatusColumn {
  index: number
  title: string
  /** The meaning of yes and no; missing for a column of words. */
  flag?: { yes: Standing; no?: Standing }
  /** Whatever stands in it means yes: nobody who left is subscribed because of the form of a time. */
  filled?: true
}

export interface Standings {
  /** The standing of the whole file, by its name. */
  whole: Standing
  columns: StatusColumn[]
  /** What words mean that are in no table, in their plain form, as somebody said. */
  words?: ReadonlyMap<string, Standing> | undefined
}

/** The columns that may hold the mail address: those with the clearest titles. */
export function emailColumns(titles: readonly string[], open: readonly number[]): number[] {
  const found = open.filter((index) => EMAIL.has(plain(titles[index]!)))
  // An "address" may be a postal address.
  const sure = found.filter((index) => !['address', 'recipient'].includes(plain(titles[index]!)))
  const best = sure.length > 0 ? sure : found
  const exact = best.filter((index) => titles[index]!.toLowerCase() === 'email')
  return exact.length === 1 ? exact : best
}

/** Whether a title has a known meaning in any file. */
export const hasMeaning = (title: string): boolean => {
  const word = plain(title)
  return [EMAIL, NAME, STATUS, BY_TITLE].some((known) => known.has(word)) || MARKS.has(word)
}

export const flagColumn = (index: number, title: string, yes: Standing): StatusColumn => ({
  index,
  title,
  flag: { yes },
  ...(isMark(title) ? { filled: true } : {}),
})

/** A column that the operator declared as a status: the meaning of its title, else a column of words. */
export function statusColumn(index: number, title: string): StatusColumn {
  const mark = MARKS.get(plain(title))
  if (mark) return flagColumn(index, title, mark)
  const flag = BY_TITLE.get(plain(title))
  return flag ? { index, title, flag } : { index, title }
}

/** The standing columns, from the titles and the name of the file. */
export function standingsOf(titles: readonly string[], file: string): Standings {
  const columns = titles.flatMap((title, index) => {
    const word = plain(title)
    return STATUS.has(word) || BY_TITLE.has(word) || MARKS.has(word) ? [statusColumn(index, title)] : []
  })
  return { whole: FILES.find(([pattern]) => pattern.test(file))?.[1] ?? 'subscribed', columns }
}

/** Whether a column holds the time at which somebody left. It counts, whatever else is said of it. */
export const isMark = (title: string): boolean => MARKS.has(plain(title))

/** The standing of a record's contact: the most serious one in its columns. */
export function standingIn(record: readonly string[], { columns, whole, words }: Standings): Standing | Wrong {
  let standing = whole
  for (const column of columns) {
    const { index, title } = column
    const cell = record[index]!.trim()
    const one = meaningOf(cell, column) ?? words?.get(plain(cell))
    if (one === undefined)
      return {
        problem:
          cell === ''
            ? `${forTerminal(title)} is empty, so it is unknown whether they are subscribed`
            : `${forTerminal(title)} says "${forTerminal(cell).slice(0, 60)}", which is not understood`,
      }
    standing = graver(standing, one)
  }
  return standing
}

/** What the cell of a status column means by itself; undefined: nobody knows. */
export function meaningOf(cell: string, { filled, flag }: Pick<StatusColumn, 'filled' | 'flag'>): Standing | undefined {
  const text = cell.trim()
  if (!flag) return standingOf(text)
  return filled && text !== '' ? flag.yes : flagged(text, flag)
}

function flagged(cell: string, { no, yes }: NonNullable<StatusColumn['flag']>): Standing | undefined {
  const flag = flagOf(cell)
  if (flag === undefined) return standingOf(cell)
  return flag ? yes : cell === '' ? 'subscribed' : (no ?? 'subscribed')
}
