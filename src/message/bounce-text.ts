// Reads bounces that servers write in free text (qmail, Exim, older Exchange and many more). The known texts are data:
// config/bounce-texts.txt. A mail counts as a bounce only when it says both that a mail server wrote it and that a
// delivery failed permanently. Only the first 64 KB of text before the copy of the mail are read, line by line, so that
// the time is bounded.
import { configAsset } from '../base/assets.ts'
import { isOneOf } from '../base/one-of.ts'
import { isMessage, partsOf, textOf, type MimePart } from './mime-tree.ts'
import {
  addressIn,
  clean,
  codeIn,
  isAutoReply,
  readable,
  statusIn,
  UNDEFINED_STATUS,
  type ReportedRecipient,
} from './reported.ts'

export const TEXT_RULES = [
  'server',
  'program',
  'complaint',
  'notice',
  'failed',
  'copy',
  'rejected',
  'recipient',
  'reply',
] as const
export type TextRuleKind = (typeof TEXT_RULES)[number]

export interface TextRule {
  kind: TextRuleKind
  pattern: RegExp
  /** The real line that the rule was written for. */
  sample: string
}

// The colon, brackets and comma of East Asian texts are escapes: the executable is ASCII.
const ADDRESS = String.raw`<?([^\s<>;"(),:\uff1a\uff08\uff09\uff0c]{1,64}@[^\s<>;"(),:@\[\]\uff1a\uff08\uff09\uff0c]{1,255})>?`
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

/** Whether the header says that a recipient reported our mail as spam. */
export const isComplaint = (tree: MimePart): boolean => headerLines(tree).some((line) => fits('complaint', line))

/**
 * Whether the header says that a mail server wrote the mail.
 * In a mail that is not an automatic answer, the name of any mail program (rules of kind "program") is enough.
 */
export function isFromServer(tree: MimePart): boolean {
  const header = headerLines(tree)
  return (
    header.some((line) => fits('server', line)) || (!isAutoReply(tree) && header.some((line) => fits('program', line)))
  )
}

/**
 * The recipients that a bounce in free text names; one recipient with address '' when the text names none. Empty when a
 * server reports only a delay or a delivery; undefined when the mail is not a bounce.
 */
export function parseBounceText(message: Buffer, tree: MimePart): ReportedRecipient[] | undefined {
  if (!isFromServer(tree)) return undefined
  const header = headerLines(tree)
  const lines = wordsOf(message, tree)
  if ([...header, ...lines].some((line) => fits('notice', line))) return []
  if (![...header, ...lines].some((line) => fits('failed', line))) return undefined
  const named = [...new Set(header.map((line) => (fits('rejected', line) ? addressesIn(line) : [])).flat())]
  const said = sections(lines)
  const own = addressIn(tree.fields.find(({ name }) => /^to$/i.test(name))?.value)
  // The addressee of the report is not the failed recipient, unless no other address is named.
  const others = [...said.keys()].filter((address) => address !== own)
  const addresses = named.length > 0 ? named : others.length > 0 ? others : [...said.keys()]
  if (addresses.length === 0) {
    const words = clean(lines.join(' '))
    // A human postmaster may write about failures too:
    // without a recipient, the subject must say so or a code must be there.
    const told = header.some((line) => fits('failed', line)) || (codeIn(words) ?? statusIn(words)) !== null
    return told ? [recipientFrom('', words)] : undefined
  }
  return addresses.slice(0, MAX_RECIPIENTS).map((address) => {
    const words = [said.get(address) ?? '', linesAbout(lines, address), addresses.length === 1 ? lines.join(' ') : '']
      .map(clean)
      .filter((each) => each !== '')
    // Text with a code is the answer of a server; without one the nearest text is taken.
    return recipientFrom(address, words.find((each) => codeIn(each) ?? statusIn(each)) ?? words[0] ?? '')
  })
}

const recipientFrom = (address: string, text: string): ReportedRecipient => ({
  address,
  original: null,
  status: statusIn(text) ?? UNDEFINED_STATUS,
  code: codeIn(text),
  text: text === '' ? UNDEFINED_STATUS : text,
  host: null,
})

const addressesIn = (line: string): string[] =>
  line
    .slice(0, MAX_LINE * 4)
    .split(/[,;:\s]+/)
    .flatMap((each) => addressIn(each) ?? [])

/** The lines that a person reads, up to the copy of the mail. */
export function wordsOf(message: Buffer, tree: MimePart): string[] {
  const leaves = partsOf(tree).filter(({ type, children }) => children.length === 0 && !isMessage(type))
  const part =
    leaves.find(({ type }) => type === 'text/plain' || type.startsWith('multipart/')) ??
    leaves.find(({ type }) => type === 'text/html')
  if (!part) return []
  const raw = textOf(message, part, MAX_TEXT)
  const text = part.type === 'text/html' ? withoutTags(raw) : raw
  const lines = text.split(/\r\n?|\n/, MAX_LINES).map((line) => line.slice(0, MAX_LINE).trimEnd())
  const copy = lines.findIndex((line) => fits('copy', line))
  return copy < 0 ? lines : lines.slice(0, copy)
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
  const said = new Map<string, string>()
  const add = (address: string, words: string): void => {
    if (!said.get(address)) said.set(address, /[a-z]{2}/i.test(words) ? words : '')
  }
  for (const [index, line] of lines.entries()) {
    if (said.size > MAX_RECIPIENTS) break
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
  return said
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
