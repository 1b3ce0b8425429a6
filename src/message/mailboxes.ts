// The mailboxes of an address field (RFC 5322 §3.4, §4.4) as untrusted senders write them: groups, comments, routes,
// names without the quotes that they need. The structure is read before encoded words are decoded, so that a decoded
// name is never a second address. Each step takes linear time.
import { decoded, utf8 } from './charset.ts'

export interface Mailbox {
  /** Display name in Unicode, or ''. */
  name: string
  /** The address as written, without a route, or ''. */
  address: string
}

const KINDS = ['word', 'space', 'quoted', 'angle', 'mark', 'encoded'] as const

interface AddressToken {
  kind: (typeof KINDS)[number] | 'comment'
  /** As written. */
  raw: string
  /** Without its quotes or brackets. */
  text: string
}

const MAX_VALUE = 64 * 1024
/** A token: white space, encoded word, quoted string, address in brackets, mark, address literal, or word. */
const TOKEN = new RegExp(
  [
    String.raw`(?<space>\s+)`,
    String.raw`(?<encoded>=\?[\w.:+*-]{1,75}\?[bq]\?[^?]*\?=)`,
    String.raw`"(?<quoted>(?:[^"\\]|\\[\s\S])*)"`,
    String.raw`<(?<angle>(?:"(?:[^"\\]|\\[\s\S])*"|[^<>"])*)>`,
    String.raw`(?<mark>[,;:])`,
    String.raw`(?<word>\[[^[\]<>]*\]|(?:\\[\s\S]|[^\s"<[\\,;:(=])+|[\s\S])`,
  ].join('|'),
  'iy',
)

function tokensOf(value: string): AddressToken[] {
  const tokens: AddressToken[] = []
  let closed = true
  for (let at = 0; at < value.length;) {
    // An unclosed comment is searched once: then a bracket is an ordinary character, as in ":(".
    const end: number = closed && value[at] === '(' ? commentEnd(value, at) : at
    closed &&= end >= 0
    if (end > at) {
      tokens.push({ kind: 'comment', raw: value.slice(at, end), text: value.slice(at + 1, end - 1) })
      at = end
      continue
    }
    TOKEN.lastIndex = at
    const match = TOKEN.exec(value)
    const groups: Partial<Record<string, string>> = match?.groups ?? {}
    const kind = KINDS.find((each) => groups[each] !== undefined) ?? 'word'
    const raw = match?.[0] ?? value.charAt(at)
    tokens.push({ kind, raw, text: groups[kind] ?? '' })
    at += raw.length
  }
  return tokens
}

/** The offset behind a comment (RFC 5322 §3.2.2), which can contain others, or -1 if its end is missing. */
function commentEnd(value: string, start: number): number {
  let depth = 0
  for (let at = start; at < value.length; at++) {
    const character = value[at]
    if (character === '\\') at++
    else if (character === '(') depth++
    else if (character === ')' && --depth === 0) return at + 1
  }
  return -1
}

const isAddress = ({ kind, raw }: AddressToken): boolean => kind === 'angle' || (kind === 'word' && raw.includes('@'))

/** The mailboxes of a field's value (bytes as latin1 characters, in `charset` if raw), those of groups too. */
export function mailboxesOf(value: string, charset?: string): Mailbox[] {
  const tokens = tokensOf(value.slice(0, MAX_VALUE))
  const names = startsOfNames(tokens)
  const lastGroup = tokens.findLastIndex(({ raw }) => raw === ';')
  const members: AddressToken[][] = []
  let member: AddressToken[] = []
  let isEmpty = true
  let hasAddress = false
  const add = (token: AddressToken): void => {
    member.push(token)
    isEmpty &&= token.kind === 'space'
    hasAddress ||= isAddress(token)
  }
  const begin = (): void => {
    member = []
    isEmpty = true
    hasAddress = false
  }
  for (const [index, token] of tokens.entries()) {
    if (token.kind !== 'mark') add(token)
    // The text before a colon is a group's name.
    else if (token.raw === ':' && (index < lastGroup || index === tokens.length - 1)) begin()
    // A name without the quotes that it needs: "Lee, Ann <ann@example.org>".
    else if (token.raw === ':' || (!isEmpty && !hasAddress && names[index])) add(token)
    else {
      members.push(member)
      begin()
    }
  }
  return [...members, member]
    .map((each) => mailboxOf(each, charset))
    .filter(({ address, name }) => address !== '' || name !== '')
}

/** For each token, whether the next address behind it is in brackets, so that a name can precede it. */
function startsOfNames(tokens: readonly AddressToken[]): boolean[] {
  const names: boolean[] = []
  let bracketed = false
  for (const token of tokens.toReversed()) {
    names.push(bracketed)
    if (isAddress(token)) bracketed = token.kind === 'angle'
  }
  return names.toReversed()
}

function mailboxOf(tokens: readonly AddressToken[], charset: string | undefined): Mailbox {
  const [from, to] = placeOfAddress(tokens)
  const given = tokens.slice(from, to)
  const rest = [...tokens.slice(0, from), ...tokens.slice(to)]
  const alone = rest.every(({ kind }) => kind === 'space' || kind === 'comment')
  const name = rest.map(({ kind, raw, text }) => {
    if (kind === 'space') return ' '
    if (kind === 'comment') return alone ? `${text} ` : raw
    return kind === 'quoted' || kind === 'word' ? text.replace(/\\([\s\S])/g, '$1') : raw
  })
  const address = given.map(({ kind, raw, text }) => (kind === 'angle' ? text : raw)).join('')
  return { name: decoded(name.join(''), charset).replace(/\s+/g, ' ').trim(), address: bare(address) }
}

/**
 * The tokens of a mailbox that are its address: the last brackets, or the tokens that touch the last "@" outside of
 * quotes.
 */
function placeOfAddress(tokens: readonly AddressToken[]): [from: number, to: number] {
  const angle = tokens.findLastIndex(({ kind }) => kind === 'angle')
  if (angle >= 0) return [angle, angle + 1]
  const at = tokens.findLastIndex(isAddress)
  if (at < 0) return [0, 0]
  const parts = (token: AddressToken | undefined): boolean => token?.kind === 'word' || token?.kind === 'quoted'
  let [from, to] = [at, at + 1]
  while (parts(tokens[from - 1])) from--
  while (parts(tokens[to])) to++
  // "ann @ example.org" (RFC 5322 §4.4).
  if (tokens[from]?.raw.startsWith('@') === true && parts(tokens[from - 2])) from -= 2
  if (tokens[to - 1]?.raw.endsWith('@') === true && parts(tokens[to + 1])) to += 2
  return [from, to]
}

/** An address without white space, comments, a lone bracket, a last dot and a route (RFC 5322 §4.4). */
const bare = (address: string): string =>
  utf8(address)
    .replace(/\([^()]*\)/g, '')
    .trim()
    .replace(/\s?([@.])\s?/g, '$1')
    .replace(/^<|[>.]$/g, '')
    .replace(/^mailto:|^@[^:"]*:/i, '')

/** Characters that need no quotes in a display name. Others are specials (RFC 5322 §3.2.3), or look encoded. */
const PLAIN = /^(?!.*=\?)[^()<>[\]:;@\\,."]*$/

/** A mailbox as the API shows it, in a form that `parseAddress` reads if the address is one. */
export function shownMailbox({ address, name }: Mailbox): string {
  if (address !== '' && (name === '' || name.length > MAX_NAME)) return address
  const phrase = PLAIN.test(name) ? name : `"${name.slice(0, MAX_NAME).replace(/["\\]/g, '\\$&')}"`
  return address === '' ? phrase : `${phrase} <${address}>`
}

/** A longer name is left out: `parseAddress` reads 1000 characters. */
const MAX_NAME = 500
