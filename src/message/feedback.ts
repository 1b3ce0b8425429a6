// Reads complaints: feedback reports (ARF, RFC 5965; CFBL, RFC 9477), and mails of providers that return our mail or
// its header with some text, but without a feedback part. Tokens in the copy of our mail identify the mail: every local
// part that may be a token is collected here, and the caller verifies the tokens.
import { upTo } from '../base/text.ts'
import {
  fieldOf,
  isMessage,
  nodesOf,
  parseFields,
  partsOf,
  textOf,
  type HeaderField,
  type MimePart,
} from './mime-tree.ts'
import { addressIn } from './reported.ts'

export type Feedback =
  | { kind: 'complaint' | 'opt-out'; feedbackType: string; recipient: string | null; tokens: string[] }
  | { kind: 'feedback'; feedbackType: string }

const MAX_REPORT = 64 * 1024
const MAX_TOKENS = 20
const MAX_COPIES = 10

/**
 * Reads a complaint; undefined when the message is not one. `complains` tells whether the header says that the message
 * is a complaint; it is used for reports without a feedback part.
 */
export function readFeedback(
  message: Buffer,
  tree: MimePart,
  complains: (tree: MimePart) => boolean,
): Feedback | undefined {
  const parts = partsOf(tree)
  const part = parts.find(({ type }) => type === 'message/feedback-report')
  if (part) return judged(parseFields(textOf(message, part, MAX_REPORT)), copiesIn(message, tree), [])
  if (parts.some(({ type }) => type.endsWith('delivery-status'))) return undefined
  const complaint = complains(tree)
  if (!complaint && tree.params.get('report-type')?.toLowerCase() !== 'feedback-report') return undefined
  const texts = parts
    .filter(({ type }) => type === 'text/plain')
    .slice(0, MAX_COPIES)
    .map((each) => textOf(message, each, MAX_REPORT))
  const copies = copiesIn(message, tree)
  // The report's fields may be in a part of another type.
  const said = texts.find((text) => /^Feedback-Type:/im.test(text))
  if (said !== undefined) return judged(parseFields(said.slice(said.search(/^Feedback-Type:/im))), copies, texts)
  const tokens = complaint ? tokensIn([], copies, texts) : []
  return tokens.length === 0
    ? undefined
    : { kind: 'complaint', feedbackType: 'abuse', recipient: recipientOf([], copies), tokens }
}

/**
 * RFC 5965 §3: only `abuse` is a complaint; opt-out asks to unsubscribe;
 * other types say nothing about the reader's wish.
 */
function judged(fields: HeaderField[], copies: HeaderField[][], texts: string[]): Feedback {
  const feedbackType = (fieldOf({ fields }, 'feedback-type') ?? '').toLowerCase().slice(0, 40)
  const kind = feedbackType === 'abuse' ? 'complaint' : /^opt-out(?:-list)?$/.test(feedbackType) ? 'opt-out' : undefined
  return kind
    ? { kind, feedbackType, recipient: recipientOf(fields, copies), tokens: tokensIn(fields, copies, texts) }
    : { kind: 'feedback', feedbackType }
}

/** The recipient who complained, when the report names one: many providers redact it; Microsoft put it in the copy. */
function recipientOf(fields: HeaderField[], copies: HeaderField[][]): string | null {
  const told = ['original-rcpt-to', 'removal-recipient'].map((name) => fieldOf({ fields }, name))
  const noted = copies.map((copy) => fieldOf({ fields: copy }, 'x-hmxmroriginalrecipient'))
  for (const value of [...told, ...noted]) {
    const address = addressIn(value)
    if (address !== null) return address
  }
  return null
}

/** The headers of attached copies of our mail: of whole copies, and of copies with only the header. */
const copiesIn = (message: Buffer, tree: MimePart): HeaderField[][] =>
  [...nodesOf(tree)]
    .filter(({ type }) => isMessage(type) || type === 'text/rfc822-headers' || type === 'message/rfc822-headers')
    .slice(0, MAX_COPIES)
    .map((node) => parseFields(upTo(textOf(message, node, MAX_REPORT), /\r?\n\r?\n/)))

/** The form of our return paths and unsubscribe addresses: local parts of 26 characters. */
const TOKEN = /(?<![\w.+-])(?:u-)?[a-z2-7]{26}(?=@)/gi

function tokensIn(fields: HeaderField[], copies: HeaderField[][], texts: string[]): string[] {
  const tokens = new Set<string>()
  const values = [fields, ...copies].flatMap((each) => each.map(({ value }) => value.slice(0, MAX_REPORT)))
  for (const text of [...values, ...texts])
    for (const [token] of text.matchAll(TOKEN)) if (tokens.size < MAX_TOKENS) tokens.add(token.toLowerCase())
  return [...tokens]
}
