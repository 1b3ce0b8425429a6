// What the titles of a list's columns mean, whoever wrote them: where the address stands, the name, and what speaks of how a person stands
// with the list (D71).
import { flagOf, graver, plain, standingOf, type Standing } from '../campaigns/standing.ts'
import { printable } from './terminal.ts'

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

/** Columns of words such as "active". */
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

/** Columns that say yes, no or since when. */
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

/** Columns that only a list of people who are gone has. */
const MARKS = new Map<string, Standing>([
  ['unsubtime', 'unsubscribed'],
  ['cleantime', 'bounced'],
])

/** Names of exports that hold one kind alone. */
const FILES: readonly [RegExp, Standing][] = [
  [/^unsubscribed(?![a-z])/i, 'unsubscribed'],
  [/^cleaned(?![a-z])/i, 'bounced'],
  [/^non[_-]?subscribed(?![a-z])/i, 'unconfirmed'],
]

export interface StatusColumn {
  index: number
  title: string
  /** What yes and no mean; absent where words stand. */
  flag?: { yes: Standing; no?: Standing }
}

export interface Standings {
  /** What the file as a whole says. */
  whole: Standing
  columns: StatusColumn[]
  /** One of the columns must say yes. */
  marked: boolean
}

/** Whether a title means something of its own, whatever the file. */
export const hasMeaning = (title: string): boolean => {
  const word = plain(title)
  return [EMAIL, NAME, WORDS, BY_TITLE].some((known) => known.has(word)) || MARKS.has(word)
}

export const flagColumn = (index: number, title: string, yes: Standing): StatusColumn => ({
  index,
  title,
  flag: { yes },
})

/** A column that was said to be of status: what its title means, else words. */
export function statusColumn(index: number, title: string): StatusColumn {
  const flag = BY_TITLE.get(plain(title))
  return flag ? { index, title, flag } : { index, title }
}

/** What titles and the name of the file say of how people stand. */
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

/** Columns that only mark a list as a whole. */
export const isMark = (title: string): boolean => MARKS.has(plain(title))

/** How the person of a record stands: the gravest of what is said. */
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
            ? `${printable(title)} is empty, so that nobody knows whether they are subscribed`
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
