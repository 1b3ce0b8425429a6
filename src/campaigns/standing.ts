// The standing of a contact in the files of other programs (D71): words of status columns, and cells of yes-or-no
// columns.

/** All standings in order: each blocks at least as much mail as the standing before it. */
export const STANDINGS = ['subscribed', 'unconfirmed', 'unsubscribed', 'blocked', 'bounced', 'complained'] as const
export type Standing = (typeof STANDINGS)[number]

/** Lower case, without spaces and punctuation between words, so that "E-mail", "e_mail" and "EMAIL:" are equal. */
export const plain = (text: string): string => text.toLowerCase().replaceAll(/[\s_.:*-]+/g, '')

const WORDS: Record<Standing, readonly string[]> = {
  subscribed: ['subscribed', 'active', 'enabled', 'confirmed', 'optedin', 'optin'],
  // The person never asked for news, or never confirmed it: no mail is sent, but the person has not unsubscribed.
  // "Pending" is not in the list: its meaning is unknown, so that such a row is an error (D71).
  unconfirmed: ['unconfirmed', 'notconfirmed', 'nonsubscribed', 'notsubscribed', 'neversubscribed', 'transactional'],
  unsubscribed: ['unsubscribed', 'unsubscribe', 'unsub', 'optedout', 'optout'],
  blocked: ['blocked', 'blocklisted', 'blacklisted', 'disabled', 'suppressed', 'banned'],
  bounced: ['bounced', 'cleaned', 'hardbounced', 'hardbounce', 'bounce'],
  complained: ['complained', 'complaint', 'spam', 'spamcomplaint', 'spamreport', 'junk', 'abuse'],
}

const BY_WORD = new Map(STANDINGS.flatMap((standing) => WORDS[standing].map((word) => [word, standing] as const)))

/** The standing for a word of a status column; undefined for an unknown word. */
export const standingOf = (word: string): Standing | undefined => BY_WORD.get(plain(word))

const YES = new Set(['yes', 'y', 'true', 't', '1', 'x', 'on'])
const NO = new Set(['', 'no', 'n', 'false', 'f', '0', 'off', 'null', 'none', 'nil', 'never'])
/** A date, or a time since 1970. */
const DATE = /^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:\D.*)?$|^\d{9,13}$/

/**
 * Reads a cell of a column named after one standing, such as "unsubscribed":
 * yes, no, or a date (yes since then). Undefined: neither.
 */
export function flagOf(cell: string): boolean | undefined {
  const text = cell.trim()
  if (DATE.test(text)) return !/^0+[-/.]/.test(text)
  const word = plain(text)
  return YES.has(word) ? true : NO.has(word) ? false : undefined
}

/** The standing that blocks more mail. */
export const graver = (one: Standing, other: Standing): Standing =>
  STANDINGS.indexOf(one) < STANDINGS.indexOf(other) ? other : one
