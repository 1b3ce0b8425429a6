// How a person stands with a list, as other programs write it (D71): the words of their status columns, and of columns that say yes or no.

/** From the least to the most that keeps mail away. */
export const STANDINGS = ['subscribed', 'unconfirmed', 'unsubscribed', 'blocked', 'bounced', 'complained'] as const
export type Standing = (typeof STANDINGS)[number]

/** Without case and what parts words, so that "E-mail", "e_mail" and "EMAIL:" are one. */
export const plain = (text: string): string => text.toLowerCase().replaceAll(/[\s_.:*-]+/g, '')

const WORDS: Record<Standing, readonly string[]> = {
  subscribed: ['subscribed', 'active', 'enabled', 'confirmed', 'optedin', 'optin'],
  // Never asked for news, or never confirmed that they did: nobody to write to, and nobody who left.
  unconfirmed: [
    'unconfirmed',
    'pending',
    'notconfirmed',
    'nonsubscribed',
    'notsubscribed',
    'neversubscribed',
    'transactional',
  ],
  unsubscribed: ['unsubscribed', 'unsubscribe', 'unsub', 'optedout', 'optout'],
  blocked: ['blocked', 'blocklisted', 'blacklisted', 'disabled', 'suppressed', 'banned'],
  bounced: ['bounced', 'cleaned', 'hardbounced', 'hardbounce', 'bounce'],
  complained: ['complained', 'complaint', 'spam', 'spamcomplaint', 'spamreport', 'junk', 'abuse'],
}

const BY_WORD = new Map(STANDINGS.flatMap((standing) => WORDS[standing].map((word) => [word, standing] as const)))

/** What a word of a status column says; undefined when it is none that is known. */
export const standingOf = (word: string): Standing | undefined => BY_WORD.get(plain(word))

const YES = new Set(['yes', 'y', 'true', 't', '1', 'x', 'on'])
const NO = new Set(['', 'no', 'n', 'false', 'f', '0', 'off', 'null', 'none', 'nil', 'never'])
/** A date, or a time since 1970. */
const DATE = /^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:\D.*)?$|^\d{9,13}$/

/** What a cell of a column says that is named for one standing, such as "unsubscribed": yes, no, or since when. Undefined: neither. */
export function flagOf(cell: string): boolean | undefined {
  const text = cell.trim()
  if (DATE.test(text)) return !/^0+[-/.]/.test(text)
  const word = plain(text)
  return YES.has(word) ? true : NO.has(word) ? false : undefined
}

/** The one that keeps more mail away. */
export const graver = (one: Standing, other: Standing): Standing =>
  STANDINGS.indexOf(one) < STANDINGS.indexOf(other) ? other : one
