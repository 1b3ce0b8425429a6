// Makes untrusted text harmless for its destination. Only this file has sets of unsafe characters
// (test/house/clean-text.test.ts).

/** Controls (C0, DEL, C1), and line and paragraph separators. */
const CONTROL = String.raw`\p{Cc}\u2028\u2029`
/** Controls of ASCII but the tab. */
const ASCII_CONTROL = String.raw`\0-\x08\x0a-\x1f\x7f`
/** Characters that change the direction of the text that follows until they are closed (UAX #9). */
const OVERRIDE = String.raw`\u202a-\u202e\u2066-\u2069`
/** These and the marks of direction. */
const DIRECTION = String.raw`\u061c\u200e\u200f${OVERRIDE}`
/** Invisible characters, and the character that a decoder writes for invalid bytes. */
const UNSEEN = String.raw`\p{Cf}\ufffd`

/**
 * Characters that change the direction of what follows until they are closed, and invisible ones. Joiners (ZWJ, ZWNJ),
 * marks of direction and variation selectors stay: languages and emoji need them.
 */
const NOT_IN_NAME = String.raw`\u00ad\u180e\u200b\u202a-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb`

const anyOf = (set: string): RegExp => new RegExp(`[${set}]`, 'u')
const everyOf = (set: string): RegExp => new RegExp(`[${set}]`, 'gu')
const runsOf = (set: string): RegExp => new RegExp(`[${set}]+`, 'gu')

const CONTROLS = anyOf(CONTROL)
const DIRECTIONS = anyOf(DIRECTION)
const FALSE_NAME = anyOf(NOT_IN_NAME)
const HIDDEN = anyOf(String.raw`${CONTROL}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800`)
const FOR_TERMINAL = everyOf(CONTROL + DIRECTION)
const FOR_LINE = runsOf(CONTROL)
const FOR_LINES = everyOf(String.raw`\p{Cc}${OVERRIDE}`)
const FOR_HEADER = runsOf(ASCII_CONTROL)
const FOR_LOG = runsOf(CONTROL + UNSEEN)
const NOT_IN_KEY = runsOf(String.raw`${CONTROL}\p{Cf}\p{Default_Ignorable_Code_Point}\s`)
const HOLE = '\u{fffd}'

/** Whether a text has controls or more than one line. */
export const hasControls = (text: string): boolean => CONTROLS.test(text)

/** Whether a text has characters that change its direction: in the name of a file they hide the true ending. */
export const changesDirection = (text: string): boolean => DIRECTIONS.test(text)

/** Whether a name has characters that are invisible or reverse the text after it. */
export const hidesInName = (text: string): boolean => FALSE_NAME.test(text)

/**
 * Whether a text may look like another one: controls, format characters (which can reverse or hide text), lone
 * surrogates, invisible blanks, or three and more combining marks in a row.
 */
export const looksFalse = (text: string): boolean => HIDDEN.test(text) || /\p{M}{3}/u.test(text)

/**
 * One line for a terminal: characters that would move its cursor, start a new line or change the direction of text
 * become U+FFFD.
 */
export const forTerminal = (text: string): string => text.replaceAll(FOR_TERMINAL, HOLE)

/** Text of several lines for a terminal. */
export const forTerminalLines = (text: string): string =>
  text.replaceAll(FOR_TERMINAL, (character) => (character === '\n' || character === '\t' ? character : HOLE))

/** Equivalent JSON that is harmless on a terminal: JSON.stringify escapes only C0. */
export const forTerminalJson = (json: string): string =>
  json.replaceAll(FOR_TERMINAL, (character) =>
    character === '\n' ? character : `\\u${character.codePointAt(0)!.toString(16).padStart(4, '0')}`,
  )

/** One line for a row, a document of the API or a page. Its letters, joiners and marks of direction stay. */
export const forLine = (text: string): string => text.replace(FOR_LINE, ' ').trim()

/** Text that a stranger typed: of its controls, only line breaks and tabs stay, and nothing reverses what follows. */
export const forLines = (text: string): string =>
  text.replaceAll(FOR_LINES, (character) => (character === '\n' || character === '\t' ? character : ''))

/** The value of a header field before it is encoded. Tabs stay, and so do characters outside ASCII. */
export const forHeader = (text: string): string => text.replace(FOR_HEADER, ' ')

/** A value that is filled into a line, without CR and LF, as the specification requires. */
export const withoutLineEnds = (text: string): string => text.replace(/[\r\n]+/g, '')

/** A text to compare with others: without blanks and invisible characters, in one case and one form. */
export const asKey = (text: string): string => text.normalize('NFKC').replace(NOT_IN_KEY, '').toLowerCase()

/** A text of another server, for rows, logs and JSON: one visible line of at most `max` characters. */
export const forLog = (text: string, max = 1000): string => text.replace(FOR_LOG, ' ').trim().slice(0, max)
