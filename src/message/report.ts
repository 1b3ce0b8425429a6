// Classifies a mail to a return path: a delivery status notification (RFC 3464), a bounce in free text
// (bounce-text.ts), a complaint (feedback.ts), an automatic answer (RFC 3834), or none of these. It only reads; the
// signed token alone decides whose mail a report is about. A report inside an attached message (message/rfc822) does
// not count.
import { isComplaint, isFromServer, parseBounceText, wordsOf } from './bounce-text.ts'
import { readFeedback, type Feedback } from './feedback.ts'
import { fieldOf, isMessage, parseFields, partsOf, textOf, type HeaderField, type MimePart } from './mime-tree.ts'
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

export type Report =
  /** `spared`: addresses of the same report that have not failed. */
  | { kind: 'bounce'; recipients: ReportedRecipient[]; spared?: string[] }
  /** Delayed, delivered, relayed or expanded: nothing has failed. */
  | { kind: 'notification' }
  | Feedback
  | { kind: 'autoreply' }

const MAX_REPORT = 64 * 1024
const MAX_RECIPIENTS = 100

/** Reads the report in a message; undefined for an ordinary mail. */
export function readReport(message: Buffer, tree: MimePart): Report | undefined {
  const parts = partsOf(tree)
  const feedback = readFeedback(message, tree, isComplaint)
  if (feedback) return feedback
  const report = readBounce(message, tree) ?? (isAutoReply(tree) ? { kind: 'autoreply' } : undefined)
  if (report?.kind !== 'bounce' || report.recipients.some(named)) return report
  // A gateway may forward the report it got without any text of its own.
  const inner = parts.find(({ type }) => isMessage(type))?.children[0]
  const passedOn = inner && readBounce(message, inner, true)
  return passedOn?.kind === 'bounce' ? passedOn : report
}

const named = ({ address, original }: ReportedRecipient): boolean => address !== '' || original !== null

/** Reads a delivery report, from fields or free text; with `fieldsOnly` only from fields. */
function readBounce(message: Buffer, tree: MimePart, fieldsOnly = false): Report | undefined {
  const fromServer = isFromServer(tree)
  const status = partsOf(tree).find(({ type }) => /^message\/(?:global-)?delivery-status$/.test(type))
  if (status && (fromServer || tree.type === 'multipart/report')) {
    const report = readStatus(textOf(message, status, MAX_REPORT))
    if (report) return report.kind === 'bounce' ? completed(report, message, tree) : report
  }
  if (fieldsOnly) return undefined
  // A report whose MIME structure is broken: a wrong boundary, or a lost Content-Type.
  const loose = fromServer ? looseStatus(message, tree) : undefined
  if (loose) return loose.kind === 'bounce' ? completed(loose, message, tree) : loose
  const recipients = parseBounceText(message, tree)
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
 * The action (RFC 3464 §2.3.3); without one, the class of the status decides. Some servers write "expired" for failed.
 */
function actionOf(fields: HeaderField[]): string | undefined {
  const said = fieldOf({ fields }, 'action')?.toLowerCase()
  const action = /^[a-z-]{1,40}/.exec(said ?? '')?.[0]
  if (action !== undefined) return /^(?:failure|expired)$/.test(action) ? 'failed' : action
  const named = fieldOf({ fields }, 'final-recipient') ?? fieldOf({ fields }, 'original-recipient')
  if (said === undefined && named === undefined) return undefined
  return (fieldOf({ fields }, 'status') ?? '').startsWith('5') ? 'failed' : 'unknown'
}

function recipientOf(fields: HeaderField[], reporter: string | undefined): ReportedRecipient {
  const text = clean(untyped(fieldOf({ fields }, 'diagnostic-code') ?? ''))
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

/** The status fields inside the text, before the copy of our mail, which may hold anything. */
function looseStatus(message: Buffer, tree: MimePart): Report | undefined {
  const words = wordsOf(message, tree).join('\n')
  const from = words.search(/^(?:Reporting-MTA|Original-Recipient|Final-Recipient):/im)
  return from < 0 ? undefined : readStatus(words.slice(from))
}
