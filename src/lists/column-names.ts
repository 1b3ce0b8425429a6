// The meaning of column titles in lists of any program: the address, the name, and columns about a contact's standing
// (D71).
import { flagOf, graver, plain, standingOf, type Standing } from '../campaigns/standing.ts'
import { printable } from '../base/printable.ts'

export const EMAIL = new Set([
  'email',
  'emailaddress',
  'mail',
  'mailaddress',
  'address',
  'emailadresse',
  'mailadresse',
  'adressemail',
  'adresseemail',
  'correoelectronico',
  'correo',
  'subscriberemail',
  'contactemail',
  'recipient',
])
export const NAME = new Set(['name', 'fullname', 'displayname'])
export const FIRST = new Set(['firstname', 'fname', 'givenname', 'forename', 'vorname', 'prenom', 'prénom', 'nombre'])
export const LAST = new Set([
  'lastname',
  'lname',
  'surname',
  'familyname',
  'nachname',
  'nom',
  'apellido',
  'apellidos',
  'cognome',
])

/** Columns with words such as "active". */
const WORDS = new Set([
  'status',
  'subscriptionstatus',
  'subscriberstatus',
  'emailstatus',
  'emailsubscriptionstatus',
  'emailmarketing',
  'emailmarketingstatus',
  'emailmarketingconsent',
  'marketingstatus',
])

/** Columns with yes, no or a date. */
const FLAGS: readonly [{ yes: Standing; no?: Standing }, readonly string[]][] = [
  [
    { yes: 'subscribed', no: 'unsubscribed' },
    ['subscribed', 'issubscribed', 'optedin', 'acceptsmarketing', 'acceptsemailmarketing'],
  ],
  [
    { yes: 'unsubscribed' },
    [
      'unsubscribed',
      'isunsubscribed',
      'unsubscribedat',
      'unsubscribedon',
      'unsubscribeddate',
      'unsubscribedate',
      'unsubscribedfromallemail',
      'optout',
      'optedout',
      'emailoptout',
      'hasoptedoutofemail',
    ],
  ],
  [
    { yes: 'blocked' },
    [
      'emailblacklist',
      'emailblacklisted',
      'emailblocklist',
      'emailblocklisted',
      'blacklist',
      'blacklisted',
      'blocklist',
      'blocklisted',
      'blocked',
      'suppressed',
      'donotemail',
      'donotcontact',
    ],
  ],
  [{ yes: 'bounced' }, ['bounced', 'hardbounced', 'cleaned']],
  [{ yes: 'complained' }, ['complained', 'spam', 'markedasspam', 'spamreported']],
]
const BY_TITLE = new Map(FLAGS.flatMap(([meaning, titles]) => titles.map((title) => [title, meaning] as const)))

/** Columns that occur only in lists of removed contacts. */
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

export interface StatusColumn {
  index: number
  title: string
  /** The meaning of yes and no; missing for a column of words. */
  flag?: { yes: Standing; no?: Standing }
}

export interface Standings {
  /** The standing of the whole file. */
  whole: Standing
  columns: StatusColumn[]
  /** Each row needs a mark in one of the columns; a row without one is an error. */
  marked: boolean
}

/** Whether a title has a known meaning in any file. */
export const hasMeaning = (title: string): boolean => {
  const word = plain(title)
  return [EMAIL, NAME, WORDS, BY_TITLE].some((known) => known.has(word)) || MARKS.has(word)
}

export const flagColumn = (index: number, title: string, yes: Standing): StatusColumn => ({
  index,
  title,
  flag: { yes },
})

/** A column that the operator declared as a status: the meaning of its title, else a column of words. */
export function statusColumn(index: number, title: string): StatusColumn {
  const flag = BY_TITLE.get(plain(title))
  return flag ? { index, title, flag } : { index, title }
}

/** The standing columns, from the titles and the name of the file. */
export function standingsOf(titles: readonly string[], file: string): Standings {
  const all = titles.map((title, index) => ({ index, title, word: plain(title) }))
  const columns = all.filter(({ word }) => WORDS.has(word) || BY_TITLE.has(word))
  const marks = all.filter(({ word }) => MARKS.has(word))
  const named = FILES.find(([pattern]) => pattern.test(file))?.[1] ?? 'subscribed'
  const spoken = columns.map(({ index, title }) => statusColumn(index, title))
  if (marks.length < 2)
    return {
      whole: marks.reduce((sum, { word }) => graver(sum, MARKS.get(word)!), named),
      columns: spoken,
      marked: false,
    }
  const flags = marks.map(({ index, title, word }) => flagColumn(index, title, MARKS.get(word)!))
  return { whole: named, columns: [...spoken, ...flags], marked: true }
}

/** Whether a column only shows the kind of the list. */
export const isMark = (title: string): boolean => MARKS.has(plain(title))

/** The standing of a record's contact: the most serious one in its columns. */
export function standingIn(
  record: readonly string[],
  { columns, marked, whole }: Standings,
): Standing | { reason: string } {
  let standing = whole
  let said = !marked
  for (const { flag, index, title } of columns) {
    const cell = record[index]!.trim()
    const one = flag ? flagged(cell, flag) : standingOf(cell)
    if (one === undefined)
      return {
        reason:
          cell === ''
            ? `${printable(title)} is empty, so it is unknown whether they are subscribed`
            : `${printable(title)} says "${printable(cell).slice(0, 60)}", which is not understood`,
      }
    said ||= one !== 'subscribed'
    standing = graver(standing, one)
  }
  return said ? standing : { reason: `none of ${columns.map(({ title }) => printable(title)).join(', ')} is filled in` }
}

function flagged(cell: string, { no, yes }: NonNullable<StatusColumn['flag']>): Standing | undefined {
  const flag = flagOf(cell)
  if (flag === undefined) return standingOf(cell)
  return flag ? yes : cell === '' ? 'subscribed' : (no ?? 'subscribed')
}
