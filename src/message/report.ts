// Classifies a message to a return path: a delivery status notification (RFC 3464), a bounce in free text
// (bounce-text.ts), a complaint, an automatic reply (RFC 3834), or another message. It only parses. The
// email of a report is identified by the signed token alone. A report inside an attached message (message/rfc822) does
// not count.
import { isComplaint, isFromServer, parseBounceText, quotedReply, wordsOf } from './bounce-text.ts'
import {
  fieldOf,
  isMessage,
  parseFields,
  partsOf,
  textOf,
  type HeaderField,
  type MimePart,
  nodesOf,
} from './mime-tree.ts'
import {
  addressIn,
  clean,
  codeIn,
  isAutoReply,
  originalIn,
  statusIn,
  UNDEFINED_STATUS,
  untyped,
  type ReportedRecipient,
} from './reported.ts'
import { upTo } from '../base/text.ts'

export type Report =
  /** `spared`: addresses of the same report that have not failed. */
  | { kind: 'bounce'; recipients: ReportedRecipient[]; spared?: string[] }
  /** Delayed, delivered, relayed or expanded: not a failure. */
  | { kind: 'notification' }
  | Feedback
  | { kind: 'autoreply' }

const MAX_REPORT = 64 * 1024
const MAX_RECIPIENTS = 100

/**
 * Parses the report in a message, or returns undefined for other messages. `nullSender`: it came with MAIL FROM:<>, as
 * bounces do (RFC 5321 §4.5.5), independent of their From field.
 */
export function readReport(message: Buffer, tree: MimePart, nullSender = false): Report | undefined {
  const parts = partsOf(tree)
  const feedback = readFeedback(message, tree, isComplaint)
  if (feedback) return feedback
  const fromServer = isFromServer(message, tree, nullSender)
  const report = readBounce(message, tree, fromServer) ?? (isAutoReply(tree) ? { kind: 'autoreply' } : undefined)
  if (report?.kind !== 'bounce' || report.recipients.some(named)) return report
  // A gateway may forward the report it got without any text of its own.
  const inner = parts.find(({ type }) => isMessage(type))?.children[0]
  const passedOn = inner && readBounce(message, inner, isFromServer(message, inner), true)
  return passedOn?.kind === 'bounce' ? passedOn : report
}

const named = ({ address, original }: ReportedRecipient): boolean => address !== '' || original !== null

/** Reads a delivery report, from fields or free text. With `fieldsOnly` only from fields. */
function readBounce(message: Buffer, tree: MimePart, fromServer: boolean, fieldsOnly = false): Report | undefined {
  const status = partsOf(tree).find(({ type }) => /^message\/(?:global-)?delivery-status$/.test(type))
  if (status && (fromServer || tree.type === 'multipart/report')) {
    const report = readStatus(textOf(message, status, MAX_REPORT))
    if (report) return report.kind === 'bounce' ? completed(report, message, tree) : report
  }
  if (fieldsOnly) return undefined
  // A report whose MIME structure is broken: a wrong boundary, or a lost Content-Type.
  const loose = fromServer ? looseStatus(message, tree) : undefined
  if (loose) return loose.kind === 'bounce' ? completed(loose, message, tree) : loose
  const recipients = fromServer ? parseBounceText(message, tree) : undefined
  if (!recipients) return undefined
  return recipients.length > 0 ? { kind: 'bounce', recipients } : { kind: 'notification' }
}

/** RFC 3464 §2: a block about the message, then one for each recipient. */
function readStatus(text: string): Report | undefined {
  const blocks = text
    .replace(/\r\n?/g, '\n')
    .split(/\n[ \t]*\n\s*/, MAX_RECIPIENTS + 50)
    .flatMap((block) => recipientGroups(parseFields(block)))
  const reporter = fieldOf({ fields: blocks[0] ?? [] }, 'reporting-mta')
  const failed: ReportedRecipient[] = []
  const others: ReportedRecipient[] = []
  for (const fields of blocks) {
    const action = actionOf(fields)
    if (action === undefined) continue
    const list = action === 'failed' ? failed : others
    if (list.length < MAX_RECIPIENTS) list.push(recipientOf(fields, reporter))
  }
  if (failed.length === 0) return others.length > 0 ? { kind: 'notification' } : undefined
  const spared = others.flatMap(({ address, original }) => [original, address]).filter((each) => each)
  return { kind: 'bounce', recipients: failed, ...(spared.length > 0 && { spared: spared as string[] }) }
}

/** Some servers omit the empty line between two recipients: a repeated field name begins the next one. */
function recipientGroups(fields: HeaderField[]): HeaderField[][] {
  let group: HeaderField[] = []
  const groups = [group]
  let names = new Set<string>()
  for (const field of fields) {
    const name = field.name.toLowerCase()
    if (names.has(name) && /^(?:final|original)-recipient$/.test(name)) {
      groups.push((group = []))
      names = new Set()
    }
    names.add(name)
    group.push(field)
  }
  return groups
}

/**
 * The action (RFC 3464 §2.3.3). Without one, the class of the status decides. Some servers write "expired" for failed.
 */
function actionOf(fields: HeaderField[]): string | undefined {
  const given = fieldOf({ fields }, 'action')?.toLowerCase()
  const action = /^[a-z-]{1,40}/.exec(given ?? '')?.[0]
  if (action !== undefined) return /^(?:failure|expired)$/.test(action) ? 'failed' : action
  const named = fieldOf({ fields }, 'final-recipient') ?? fieldOf({ fields }, 'original-recipient')
  if (given === undefined && named === undefined) return undefined
  return (fieldOf({ fields }, 'status') ?? '').startsWith('5') ? 'failed' : 'unknown'
}

function recipientOf(fields: HeaderField[], reporter: string | undefined): ReportedRecipient {
  const diagnostic = clean(untyped(fieldOf({ fields }, 'diagnostic-code') ?? ''))
  const text = quotedReply(codeIn(diagnostic) === null ? supplementOf(fields) || diagnostic : diagnostic)
  const field = /^([245]\.\d{1,3}\.\d{1,3})/.exec(fieldOf({ fields }, 'status') ?? '')?.[1] ?? null
  const quoted = statusIn(text)
  // A status in the refusing server's text counts before the reporting
  // server's field, unless it is as general as 5.0.0.
  const status = quoted !== null && !/^\d\.0\.0$/.test(quoted) ? quoted : (field ?? quoted ?? UNDEFINED_STATUS)
  const host = fieldOf({ fields }, 'remote-mta') ?? fieldOf({ fields }, 'reporting-mta') ?? reporter
  return {
    address: addressIn(fieldOf({ fields }, 'final-recipient')) ?? '',
    original: originalIn(fieldOf({ fields }, 'original-recipient')),
    status,
    code: codeIn(text),
    text: text === '' ? status : text,
    host: host === undefined ? null : clean(untyped(host)).slice(0, 255),
  }
}

/** The reply in `X-Supplementary-Info: <mx.example.org #5.0.0 smtp; 550 "Unknown user">` (Cisco's gateways). */
function supplementOf(fields: HeaderField[]): string {
  const text = clean(fieldOf({ fields }, 'x-supplementary-info') ?? '')
  const [, reply = ''] = /^<?(?:[^\s;]{1,255} ){0,3}smtp; ?(.+)$/i.exec(text) ?? []
  return reply.replace(/>$/, '')
}

/** The report with the recipient or the server's answer taken from the text, where the fields lack them. */
function completed(report: Report & { kind: 'bounce' }, message: Buffer, tree: MimePart): Report {
  const vague = (each: ReportedRecipient): boolean =>
    !named(each) || (each.code === null && !/[a-z]{3}/i.test(each.text))
  if (!report.recipients.some(vague)) return report
  const words = parseBounceText(message, tree) ?? []
  const recipients = report.recipients.map((each) => {
    const same = words.find(({ address }) => address === each.address || address === each.original)
    const found = same ?? (words.length === 1 && report.recipients.length === 1 ? words[0] : undefined)
    if (!found || !vague(each)) return each
    const general = each.status === null || /^\d\.[05]\.0$/.test(each.status)
    return {
      ...each,
      address: named(each) ? each.address : found.address,
      ...(each.code === null && found.text !== '' && { text: found.text, code: found.code }),
      ...(general && { status: found.status }),
    }
  })
  return { ...report, recipients }
}

/** The status fields inside the text, before the copy of our email, which may contain any text. */
function looseStatus(message: Buffer, tree: MimePart): Report | undefined {
  const words = wordsOf(message, tree).join('\n')
  const from = words.search(/^(?:Reporting-MTA|Original-Recipient|Final-Recipient):/im)
  return from < 0 ? undefined : readStatus(words.slice(from))
}

// Parses complaints: feedback reports (ARF, RFC 5965; CFBL, RFC 9477), and messages of providers that return our email
// or its header with some text, but without a feedback part. Tokens in the copy identify the email: every local part
// that may be a token is collected here, and the caller verifies the tokens.

export type Feedback =
  | { kind: 'complaint' | 'opt-out'; feedbackType: string; recipient: string | null; tokens: string[] }
  | { kind: 'feedback'; feedbackType: string }

const MAX_TOKENS = 20
const MAX_COPIES = 10

/**
 * Parses a complaint, or returns undefined for other messages. `complains` is whether the header declares the message a
 * complaint, for reports without a feedback part.
 */
export function readFeedback(
  message: Buffer,
  tree: MimePart,
  complains: (tree: MimePart) => boolean,
): Feedback | undefined {
  const parts = partsOf(tree)
  const part = parts.find(({ type }) => type === 'message/feedback-report')
  if (part) return feedbackFrom(parseFields(textOf(message, part, MAX_REPORT)), copiesIn(message, tree), [])
  if (parts.some(({ type }) => type.endsWith('delivery-status'))) return undefined
  const complaint = complains(tree)
  if (!complaint && tree.params.get('report-type')?.toLowerCase() !== 'feedback-report') return undefined
  const texts = parts
    .filter(({ type }) => type === 'text/plain')
    .slice(0, MAX_COPIES)
    .map((each) => textOf(message, each, MAX_REPORT))
  const copies = copiesIn(message, tree)
  // The report's fields may be in a part of another type.
  const report = texts.find((text) => /^Feedback-Type:/im.test(text))
  if (report !== undefined)
    return feedbackFrom(parseFields(report.slice(report.search(/^Feedback-Type:/im))), copies, texts)
  const tokens = complaint ? tokensIn([], copies, texts) : []
  return tokens.length === 0
    ? undefined
    : { kind: 'complaint', feedbackType: 'abuse', recipient: complainedRecipient([], copies), tokens }
}

/**
 * RFC 5965 §3: only `abuse` is a complaint, and opt-out is an unsubscribe request. Other types do not express a wish of
 * the reader.
 */
function feedbackFrom(fields: HeaderField[], copies: HeaderField[][], texts: string[]): Feedback {
  const feedbackType = (fieldOf({ fields }, 'feedback-type') ?? '').toLowerCase().slice(0, 40)
  const kind = feedbackType === 'abuse' ? 'complaint' : /^opt-out(?:-list)?$/.test(feedbackType) ? 'opt-out' : undefined
  return kind
    ? { kind, feedbackType, recipient: complainedRecipient(fields, copies), tokens: tokensIn(fields, copies, texts) }
    : { kind: 'feedback', feedbackType }
}

/**
 * The recipient who complained, if the report has the address: many providers redact it, Microsoft puts it in the copy.
 */
function complainedRecipient(fields: HeaderField[], copies: HeaderField[][]): string | null {
  const addresses = ['original-rcpt-to', 'removal-recipient'].map((name) => fieldOf({ fields }, name))
  const noted = copies.map((copy) => fieldOf({ fields: copy }, 'x-hmxmroriginalrecipient'))
  for (const value of [...addresses, ...noted]) {
    const address = addressIn(value)
    if (address !== null) return address
  }
  return null
}

/** The headers of attached copies of our email: of complete copies, and of copies with only the header. */
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
