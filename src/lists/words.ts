// Column titles and status values of other systems (D71). The command, the console and the API share this table, for
// contact lists and suppression lists. Titles are those of the address, the name, and the status of a contact. Values
// are those of status columns, or reasons of suppressions.
import { forTerminal } from '../base/clean-text.ts'
import { stricter, STANDINGS, SUPPRESSIONS, type Standing } from '../campaigns/import-with-status.ts'
import type { Reason } from '../suppressions/suppressions.ts'

const NUMBER = /^[-+]?\d+(?:[.,]\d+)?$/

/**
 * Lower case, without accents, spaces and punctuation between words, so that "E-mail", "e_mail" and "EMAIL:" are equal.
 * A number keeps its sign: AcyMailing writes 1 for subscribed and -1 for unsubscribed.
 */
export function plain(text: string): string {
  const trimmed = text.trim().toLowerCase()
  if (NUMBER.test(trimmed)) return trimmed
  const folded = /^[\0-\x7f]*$/.test(trimmed) ? trimmed : trimmed.normalize('NFKD').replaceAll(/\p{Mn}+/gu, '')
  return folded.replaceAll(/[\s_.:*-]+/g, '')
}

const words = (text: string): string[] => text.trim().split(/\s+/)
/** Titles in their plain form. */
const titles = (text: string): Set<string> => new Set(words(text))

const EMAIL = titles(`
  email emailaddress mail mailaddress address emailadresse mailadresse adressemail adresseemail courriel
  correoelectronico correo indirizzoemail enderecodeemail eposta emailadres email1 subscriberemail contactemail
  recipient subscriber`)
export const NAME = titles('name fullname displayname')
export const FIRST = titles('firstname fname givenname forename vorname prenom nombre')
export const LAST = titles('lastname lname surname familyname nachname nom apellido apellidos cognome')

/** Columns with values such as "active". */
const STATUS = titles(`
  status subscriptionstatus subscriberstatus emailstatus emailsubscriptionstatus emailmarketing
  emailmarketingstatus emailmarketingconsent marketingstatus globalstatus liststatus emailpermissionstatus
  permissionstatus subscribertype emailsubscriberstatus newsletterstatus anmeldestatus abostatus`)

/** Columns with yes, no or a date. */
const FLAGS: readonly [{ yes: Standing; no?: Standing }, ReadonlySet<string>][] = [
  [
    { yes: 'subscribed', no: 'unsubscribed' },
    titles(`
    subscribed issubscribed optedin acceptsmarketing acceptsemailmarketing subscribedtoemails subscribedtonewsletter
    newslettersubscribed emailsubscribed angemeldet newsletterangemeldet`),
  ],
  [{ yes: 'subscribed', no: 'unconfirmed' }, titles('confirmed isconfirmed')],
  [
    { yes: 'unsubscribed' },
    titles(`
    unsubscribed isunsubscribed unsubscribedat unsubscribedon unsubscribeddate unsubscribedate
    unsubscriptiondate unsubscribedfromallemail optout optedout optoutdate confirmedoptoutdate emailoptout
    hasoptedoutofemail emaildisabled emailsdisabled deactivated deactivatedat deletedat abgemeldet abgemeldetam
    abmeldung abmeldedatum ausgetragen ausgetragenam abbestellt`),
  ],
  [
    { yes: 'blocked' },
    titles(`
    emailblacklist emailblacklisted emailblocklist emailblocklisted blacklist blacklisted blocklist blocklisted
    blocked suppressed donotemail donotcontact gesperrt blockiert`),
  ],
  [{ yes: 'bounced' }, titles('bounced hardbounced cleaned undeliverable undeliverabilitydate unzustellbar')],
  [{ yes: 'complained' }, titles('complained spam markedasspam spamreported')],
]
const BY_TITLE = new Map(FLAGS.flatMap(([meaning, all]) => [...all].map((title) => [title, meaning] as const)))

/** Columns with the reply of a receiving server: a code, or a text that starts with one. */
export const REPLIES = titles(`
  status code smtpcode smtpstatus smtpreply smtpresponse statuscode errorcode bouncecode replycode enhancedcode
  enhancedstatuscode dsn dsncode dsnstatus diagnosticcode diagnostic response error reason bouncereason`)
/** Parts of titles about unsubscribing and about subscribing that are not in the table. */
const LEFT =
  /unsub|opt(?:ed)?out|disabled|deactivat|black?list|blocklist|blocked|suppress|bounce|complain|spam|donot|dont(?:e?mail|send|contact)|no(?:e?mails?|bulk|marketing|newsletter)|excluded|abgemeldet|abmeld|austrag|ausgetragen|abbestell|sperr|widerruf|desuscri|desinscri|desabonn|disiscri|cancellat|uitgeschreven|uitschrijf|afgemeld|^(?:fecha(?:de)?)?baja|descadastr|wypisa|rezygnac|odhlas|leiratk|avregistr|avmeld|frameld|отпис|list[ae]n(?:oire|egra|era)/
const JOINED =
  /subscri|opt(?:ed)?in|consent|permission|newsletter|mailinglist|mailings?$|marketing|einwillig|zustimm|angemeldet|anmeldung|abonn|suscri|inscri|iscri(?!tt?ore)|ingeschreven|assinan|zapisan|subskryb|prihlas|feliratk|prenumer|tilmeld|pameld|подпис|согласи|accept|agree|gdpr|dsgvo|rgpd/

/** Whether a title is about unsubscribing or about subscribing. */
export function leavesOrJoins(title: string): 'left' | 'joined' | undefined {
  const word = plain(title)
  return LEFT.test(word) ? 'left' : JOINED.test(word) ? 'joined' : undefined
}

/** Mailchimp's columns with the time when a contact unsubscribed or bounced: an empty cell means neither. */
const MARKS = new Map<string, Standing>([
  ['unsubtime', 'unsubscribed'],
  ['cleantime', 'bounced'],
])

/** Names of export files whose contacts all have the same status. */
const FILES: readonly [RegExp, Standing][] = [
  [/^unsubscribed(?![a-z])/i, 'unsubscribed'],
  [/^cleaned(?![a-z])/i, 'bounced'],
  [/^non[_-]?subscribed(?![a-z])/i, 'unconfirmed'],
]

/** Values of status columns. */
export const STANDING_WORDS: Record<Standing, readonly string[]> = {
  subscribed: words(
    'subscribed active enabled confirmed optedin optin express explicit implied regular premium gifted angemeldet aktiv',
  ),
  // The contact never subscribed or never confirmed: no email is sent, but the contact has not unsubscribed. "Pending"
  // is not in the list: its meaning is ambiguous, so such a row is an error (D71).
  unconfirmed: words(`
    unconfirmed notconfirmed nonsubscribed notsubscribed neversubscribed transactional unactivated
    pendingconfirmation awaitingconfirmation unbestatigt`),
  unsubscribed: words(`
    unsubscribed unsubscribe unsub optedout optout cancelled canceled churned removed abgemeldet ausgetragen abbestellt
    desabonne desinscrit desuscrito uitgeschreven`),
  blocked: words('blocked blocklisted blacklisted disabled suppressed banned spammy gesperrt blockiert'),
  bounced: words('bounced cleaned hardbounced hardbounce bounce undeliverable unzustellbar'),
  complained: words('complained complaint spam spamcomplaint spamreport junk abuse'),
}

const BY_WORD = new Map(
  STANDINGS.flatMap((standing) => STANDING_WORDS[standing].map((word) => [word, standing] as const)),
)

/** Returns the status for a value of a status column, or undefined for an unknown value. */
export const standingOf = (word: string): Standing | undefined => BY_WORD.get(plain(word))

/** Yes and no, also as spreadsheets write them in other languages. */
const YES = titles('yes y true t 1 x on ja wahr oui vrai si sim verdadero verdadeiro vero')
const NO = titles('no n false f 0 off null none nil never nein falsch non faux falso nee nao').add('')
/** A date, or a time since 1970. */
const DATE = /^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:\D.*)?$|^\d{9,13}$/

/**
 * Reads a cell of a column named after one standing, such as "unsubscribed":
 * yes, no, or a date (yes since then). Undefined: neither.
 */
function flagOf(cell: string): boolean | undefined {
  const text = cell.trim()
  return DATE.test(text) ? !/^0+[-/.]/.test(text) : yesOrNo(text)
}

/** Parses a yes or no, including ''. Returns undefined for other values. */
export function yesOrNo(cell: string): boolean | undefined {
  const word = plain(cell)
  return YES.has(word) ? true : NO.has(word) ? false : undefined
}

/**
 * Reasons of suppressions in Postrider and other services, in addition to the status values. Null marks a temporary
 * reason, so the entry is not imported.
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

/** Returns the suppression reason for a status, or null if it does not suppress. */
export const reasonFor = (standing: Standing): Reason | null => SUPPRESSIONS[standing]?.reason ?? null

/** Returns the suppression reason for a value, or undefined for an unknown value. */
export function reasonOf(word: string): Reason | null | undefined {
  const known = Object.hasOwn(REASON_WORDS, plain(word)) ? REASON_WORDS[plain(word)] : undefined
  if (known !== undefined) return known
  const standing = standingOf(word)
  return standing === undefined ? undefined : reasonFor(standing)
}

/** The error in a row. */
export interface Wrong {
  problem: string
}

export interface StatusColumn {
  index: number
  title: string
  /** The meaning of yes and no. Absent for a column of status values. */
  flag?: { yes: Standing; no?: Standing }
  /** Any text in it means yes, so that an unknown time format never resubscribes an unsubscribed contact. */
  filled?: true
}

export interface Standings {
  /** The status of the whole file, by its name. */
  whole: Standing
  columns: StatusColumn[]
  /** The meanings of further values, chosen by the user, by the value in its plain form. */
  words?: ReadonlyMap<string, Standing> | undefined
  /** Where an unknown value can be mapped: --status of the command, or "statuses" of a page and the API. */
  fix?: 'option' | 'words'
}

/** The columns that may contain the email address: those with the clearest titles. */
export function emailColumns(titles: readonly string[], open: readonly number[]): number[] {
  const found = open.filter((index) => EMAIL.has(plain(titles[index]!)))
  // An "address" may be a postal address, a "subscriber" a name.
  const sure = found.filter((index) => !['address', 'recipient', 'subscriber'].includes(plain(titles[index]!)))
  const best = sure.length > 0 ? sure : found
  const exact = best.filter((index) => titles[index]!.toLowerCase() === 'email')
  return exact.length === 1 ? exact : best
}

/** Whether a title has a known meaning in any file. */
export const hasMeaning = (title: string): boolean => {
  const word = plain(title)
  return [EMAIL, NAME, STATUS, BY_TITLE].some((known) => known.has(word)) || MARKS.has(word)
}

/** A column of yes, no or dates. Yes means the status. For "subscribed", no means unsubscribed. */
export const flagColumn = (index: number, title: string, yes: Standing): StatusColumn => ({
  index,
  title,
  flag: yes === 'subscribed' ? { yes, no: 'unsubscribed' } : { yes },
  ...(isMark(title) ? { filled: true } : {}),
})

/** A column mapped as a status: status values, and yes and no if the title defines them. */
export function statusColumn(index: number, title: string): StatusColumn {
  const word = plain(title)
  const mark = MARKS.get(word)
  if (mark) return flagColumn(index, title, mark)
  const flag = BY_TITLE.get(word)
  if (flag) return { index, title, flag }
  const about = STATUS.has(word) ? undefined : leavesOrJoins(title)
  return about ? flagColumn(index, title, about === 'left' ? 'unsubscribed' : 'subscribed') : { index, title }
}

/** Returns the status columns, from the titles and the file name. */
export function standingsOf(titles: readonly string[], file: string): Standings {
  const columns = titles.flatMap((title, index) => {
    const word = plain(title)
    return STATUS.has(word) || BY_TITLE.has(word) || MARKS.has(word) ? [statusColumn(index, title)] : []
  })
  return { whole: FILES.find(([pattern]) => pattern.test(file))?.[1] ?? 'subscribed', columns }
}

/** Whether a column contains unsubscribe times. It always counts, even if it is mapped otherwise. */
export const isMark = (title: string): boolean => MARKS.has(plain(title))

/** Returns the status of a contact: the most serious one in its columns. */
export function standingIn(record: readonly string[], { columns, fix, whole, words }: Standings): Standing | Wrong {
  let standing = whole
  for (const column of columns) {
    const { flag, index, title } = column
    const cell = record[index]!.trim()
    const one = meaningOf(cell, column) ?? words?.get(plain(cell))
    // MailerLite leaves the subscription date empty next to a status.
    if (one === undefined && cell === '' && flag && columns.some((other) => other.flag?.no === undefined)) continue
    if (one === undefined)
      return {
        problem:
          cell === ''
            ? `has no value in ${forTerminal(title)}, so the subscription status is unknown`
            : `has the unknown ${forTerminal(title)} "${forTerminal(cell).slice(0, 60)}"${yesOrNo(cell) === undefined ? fixOf(fix, cell) : '; map the column to "subscribed" or "unsubscribed"'}`,
      }
    standing = stricter(standing, one)
  }
  return standing
}

const fixOf = (fix: Standings['fix'], word: string): string =>
  fix === undefined
    ? ''
    : fix === 'words'
      ? '; add the value to "statuses"'
      : `; map the value, such as --status "${forTerminal(plain(word)).slice(0, 60)}=unconfirmed"`

/** Returns the meaning of a single status cell, or undefined if it is unknown. */
export function meaningOf(cell: string, { filled, flag }: Pick<StatusColumn, 'filled' | 'flag'>): Standing | undefined {
  const text = cell.trim()
  if (!flag) return standingOf(text)
  return filled && text !== '' ? flag.yes : flagged(text, flag)
}

function flagged(cell: string, { no, yes }: NonNullable<StatusColumn['flag']>): Standing | undefined {
  const flag = flagOf(cell)
  if (flag === undefined) return standingOf(cell)
  // An empty cell under "unsubscribed" means no. Under "subscribed" it does not mean yes.
  return flag ? yes : cell === '' && no !== undefined ? undefined : (no ?? 'subscribed')
}
