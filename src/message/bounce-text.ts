// Parses bounces in free text (qmail, Exim, older Exchange and many more). The known texts are data:
// config/bounce-texts.txt. A message is a bounce only if its texts show that a mail server wrote it and that a delivery
// failed permanently. Only the first 64 KB of text before the copy of the email are read, line by line, so that the
// time is bounded.
import { configAsset } from '../base/assets.ts'
import { isOneOf } from '../base/one-of.ts'
import { fieldOf, isMessage, partsOf, textOf, type MimePart } from './mime-tree.ts'
import {
  addressIn,
  clean,
  codeIn,
  isAnswer,
  isAutoReply,
  readable,
  statusIn,
  UNDEFINED_STATUS,
  type ReportedRecipient,
} from './reported.ts'

export const TEXT_RULES = [
  'server',
  'complaint',
  'notice',
  'failed',
  'copy',
  'rejected',
  'recipient',
  'reply',
  'frame',
] as const
export type TextRuleKind = (typeof TEXT_RULES)[number]

export interface TextRule {
  kind: TextRuleKind
  pattern: RegExp
  /** The real line that the rule was written for. */
  sample: string
}

// The colon, brackets and comma of East Asian texts are escapes: the executable is ASCII.
const ADDRESS = String.raw`<?((?:"[^"\\\s]{1,64}"@|[^\s<>;"(),:\uff1a\uff08\uff09\uff0c]{1,64}@)[^\s<>;"(),:@\[\]\uff1a\uff08\uff09\uff0c]{1,255})>?`
const MAX_TEXT = 64 * 1024
const MAX_LINE = 500
const MAX_LINES = 2000
const MAX_RECIPIENTS = 100
const MAX_SECTION = 20

/** Reads the rules of a file. Throws an Error with the line number for a malformed line. */
export function parseTextRules(text: string): TextRule[] {
  const rules: TextRule[] = []
  let sample = ''
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue
    if (line.startsWith('>')) {
      sample = line.slice(2)
      continue
    }
    const [, kind, pattern] = /^(\w+)\s+(.+)$/.exec(line) ?? []
    if (pattern === undefined || kind === undefined || !isOneOf(TEXT_RULES, kind))
      throw new Error(`bounce-texts.txt:${index + 1}: "${line}" is not a rule`)
    rules.push({ kind, pattern: new RegExp(pattern.replace('{address}', ADDRESS), 'iu'), sample })
  }
  return rules
}

let shipped: Map<TextRuleKind, RegExp[]> | undefined

function patterns(kind: TextRuleKind): readonly RegExp[] {
  if (!shipped) {
    shipped = new Map()
    for (const rule of parseTextRules(configAsset('bounce-texts.txt')))
      shipped.set(rule.kind, [...(shipped.get(rule.kind) ?? []), rule.pattern])
  }
  return shipped.get(kind) ?? []
}

const fits = (kind: TextRuleKind, line: string): boolean => patterns(kind).some((pattern) => pattern.test(line))

function found(kind: TextRuleKind, line: string): string | undefined {
  if (!line.includes('@')) return undefined
  for (const pattern of patterns(kind)) {
    const address = pattern.exec(line)?.[1]
    if (address !== undefined) return addressIn(address) ?? undefined
  }
  return undefined
}

const headerLines = ({ fields }: MimePart): string[] =>
  fields.map(({ name, value }) => `${name}: ${readable(value.slice(0, MAX_LINE))}`)

/** Whether the header shows that a recipient reported our mail as spam. */
export const isComplaint = (tree: MimePart): boolean => headerLines(tree).some((line) => fits('complaint', line))

/**
 * Whether a mail server wrote the message: its header names one, or it has no sender (MAIL FROM:<> or Return-Path: <>)
 * and returns an email. Without a returned email, an empty sender proves nothing: people can send such messages, too.
 */
export function isFromServer(message: Buffer, tree: MimePart, nullSender = false): boolean {
  const header = headerLines(tree)
  if (header.some((line) => fits('server', line))) return true
  return (nullSender || fieldOf(tree, 'return-path')?.startsWith('<>') === true) && isReturned(message, tree, header)
}

/** A field of our email's header, or of a report, that the text quotes. */
const QUOTED = /^[ \t|]{0,8}(?:Return-Path|Received|DKIM-Signature|Message-ID|Reporting-MTA|Final-Recipient):/i
const ENCLOSED = /^(?:message\/(?:rfc822|global|(?:global-)?delivery-status)|text\/rfc822-headers)$/

/**
 * Whether a message returns our email or contains a report. A message that is marked as automatic counts only if its
 * header reports a failure and it is not a reply, because absence notices often have no other mark.
 */
function isReturned(message: Buffer, tree: MimePart, header: readonly string[]): boolean {
  if (isAutoReply(tree)) return !isAnswer(tree) && header.some((line) => fits('failed', line))
  return (
    partsOf(tree).some(({ type }) => ENCLOSED.test(type)) || linesOf(message, tree).some((line) => QUOTED.test(line))
  )
}

/** Words of the reporting server behind a reply to RCPT (Postfix, qmail, Exchange). */
const TAIL = /\s?(?:\(in reply to RCPT TO command\)|Giving up on \S{1,255}|##)$/i

/** The reply that a reporting server quotes, without its own words around it, which would be read as the reply's. */
export function quotedReply(given: string): string {
  const text = given.replace(TAIL, '')
  // A reply may quote another one: `550 … undeliverable address: host mx.example.org[192.0.2.1] said: 450 …`.
  if (/^[45](?:[0-5]\d\b|\.\d)/.test(text)) return text
  for (const pattern of patterns('frame')) {
    const frame = pattern.exec(text)
    const reply = frame ? text.slice(frame.index + frame[0].length) : ''
    if (/^[45](?:[0-5]\d[\s-]|\.\d{1,3}\.\d)/.test(reply)) return reply
  }
  return text
}

/**
 * Returns the recipients in a server's bounce in free text, or one recipient with address '' if the text names no
 * address. Empty if a server reports only a delay or a delivery. Undefined if the message is not a bounce.
 */
export function parseBounceText(message: Buffer, tree: MimePart): ReportedRecipient[] | undefined {
  const header = headerLines(tree)
  const lines = wordsOf(message, tree)
  if ([...header, ...lines].some((line) => fits('notice', line))) return []
  if (![...header, ...lines].some((line) => fits('failed', line))) return undefined
  const named = [...new Set(header.map((line) => (fits('rejected', line) ? addressesIn(line) : [])).flat())]
  const textByAddress = sections(lines)
  const own = addressIn(tree.fields.find(({ name }) => /^to$/i.test(name))?.value)
  // The addressee of the report is not the failed recipient, unless no other address is named.
  const others = [...textByAddress.keys()].filter((address) => address !== own)
  const addresses = named.length > 0 ? named : others.length > 0 ? others : [...textByAddress.keys()]
  if (addresses.length === 0) {
    const words = clean(lines.join(' '))
    // A human postmaster may write about failures, too. So without a recipient, a failure in the subject or a code is
    // required.
    const reportsFailure = header.some((line) => fits('failed', line)) || (codeIn(words) ?? statusIn(words)) !== null
    return reportsFailure ? [recipientFrom('', words)] : undefined
  }
  return addresses.slice(0, MAX_RECIPIENTS).map((address) => {
    const words = [
      textByAddress.get(address) ?? '',
      linesAbout(lines, address),
      addresses.length === 1 ? lines.join(' ') : '',
    ]
      .map(clean)
      .filter((each) => each !== '')
    // Text with a code is the answer of a server. Without one the nearest text is taken.
    return recipientFrom(address, words.find((each) => codeIn(each) ?? statusIn(each)) ?? words[0] ?? '')
  })
}

function recipientFrom(address: string, words: string): ReportedRecipient {
  const text = quotedReply(words)
  return {
    address,
    original: null,
    status: statusIn(text) ?? UNDEFINED_STATUS,
    code: codeIn(text),
    text: text === '' ? UNDEFINED_STATUS : text,
    host: null,
  }
}

const addressesIn = (line: string): string[] =>
  line
    .slice(0, MAX_LINE * 4)
    .split(/[,;:\s]+/)
    .flatMap((each) => addressIn(each) ?? [])

/** The visible lines, up to the copy of the email. */
export function wordsOf(message: Buffer, tree: MimePart): string[] {
  const lines = linesOf(message, tree)
  const copy = lines.findIndex((line) => fits('copy', line))
  return copy < 0 ? lines : lines.slice(0, copy)
}

function linesOf(message: Buffer, tree: MimePart): string[] {
  const leaves = partsOf(tree).filter(({ type, children }) => children.length === 0 && !isMessage(type))
  const part =
    leaves.find(({ type }) => type === 'text/plain' || type.startsWith('multipart/')) ??
    leaves.find(({ type }) => type === 'text/html')
  if (!part) return []
  const raw = textOf(message, part, MAX_TEXT)
  const text = part.type === 'text/html' ? withoutTags(raw) : raw
  return text.split(/\r\n?|\n/, MAX_LINES).map((line) => line.slice(0, MAX_LINE).trimEnd())
}

const withoutTags = (html: string): string =>
  html
    .replace(/<(?:br|p|div|tr|h\d)\b[^<>]{0,500}>/gi, '\n')
    .replace(/<\/?[a-z!][^<>]{0,500}>/gi, ' ')
    .replace(/&lt;/g, '<')
    .replace(/&gt;/g, '>')
    .replace(/&amp;/g, '&')

/** The addresses that the lines name, each with the text after it up to an empty line ('' when there is no text). */
function sections(lines: string[]): Map<string, string> {
  const textByAddress = new Map<string, string>()
  const add = (address: string, words: string): void => {
    if (!textByAddress.get(address)) textByAddress.set(address, /[a-z]{2}/i.test(words) ? words : '')
  }
  for (const [index, line] of lines.entries()) {
    if (textByAddress.size > MAX_RECIPIENTS) break
    const replied = found('reply', line)
    if (replied !== undefined) add(replied, line.trim())
    const address = replied === undefined ? found('recipient', line) : undefined
    if (address === undefined) continue
    const after = line.slice(line.toLowerCase().lastIndexOf(address) + address.length)
    const rest = after.replace(/^[>:\s.[\](]+/, '').replace(/^([^[\]]*)\]$/, '$1')
    const following = lines.slice(index + 1, index + MAX_SECTION)
    const end = following.findIndex((next) => next.trim() === '' || other(next, address))
    add(address, [rest, ...(end < 0 ? following : following.slice(0, end))].join(' ').trim())
  }
  return textByAddress
}

function other(line: string, address: string): boolean {
  const next = found('recipient', line) ?? found('reply', line)
  return next !== undefined && next !== address
}

/** The other text about an address: lines that name it or its local part, and the answers to them. */
function linesAbout(lines: string[], address: string): string {
  const local = `: ${address.slice(0, address.lastIndexOf('@'))}`
  const naming = (line = ''): boolean => line.toLowerCase().includes(address) || line.toLowerCase().endsWith(local)
  const about = lines.filter(
    (line, index) =>
      (naming(line) && found('recipient', line) === undefined) ||
      (naming(lines[index - 1]) && /\b[45]\d\d\b/.test(line)),
  )
  return about.join(' ')
}
