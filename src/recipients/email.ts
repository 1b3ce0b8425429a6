// Emails of an account to a recipient: about a subscription, or about the recipient's data. Each is an email of the
// sending domain, in the list of the account's emails, whose tag names its kind. It is not tracked, and it is queued in
// the transaction of its cause.
import { forLine } from '../base/clean-text.ts'
import { Refusal } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import { brandOf } from '../campaigns/brand.ts'
import { accept, payloadHash, type AcceptDeps } from '../mail/accept/submit.ts'
import { recipientsOf, writtenBody, type NewEmail } from '../mail/accept/admit.ts'
import { formatAddress, knownAddress } from '../message/address.ts'
import { escapeHtml } from '../message/template.ts'
import type { Unsubscribe } from '../message/list-unsubscribe.ts'
import type { Tx } from '../store/database.ts'
import type { Texts } from './languages.ts'
import { countEmail, isLimited } from './limits.ts'

export interface RecipientEmailDeps extends AcceptDeps {
  keyring: Keyring
}

export interface RecipientEmail {
  /** The sending domain. */
  domain: { name: string; user_key: number }
  to: string
  /** The sender's address, if it is on the sending domain. Otherwise that of the brand, or noreply@ on the domain. */
  from?: string | null
  replyTo?: string | null
  /** The language of the words. */
  lang: Texts['lang']
  subject: string
  /** The sender's own content, in place of paragraphs and button. */
  html?: string
  /** Paragraphs before the button. A line break in one is kept. */
  text: readonly string[]
  button?: { label: string; url: string }
  /** Paragraphs and links after the button. */
  after?: readonly (string | { label: string; url: string })[]
  /** The kind of the email, such as "subscriber_link". */
  tag: string
  /** Limits the email as one that anybody can request for the address: `audience` is its key, or null. */
  limit?: { audience: number | null; perAddress?: number }
  unsubscribe?: Unsubscribe
  /** If the account has an email with this key, no other one is sent. */
  idempotencyKey?: string
}

/**
 * - `sent`: the email is queued, or was before under the same key.
 * - `limited`: too many were requested for the address.
 * - `suppressed`: the address is suppressed for all email of the domain.
 * - `refused`: the account or the domain cannot send.
 */
export interface RecipientEmailResult {
  result: 'sent' | 'limited' | 'suppressed' | 'refused'
  /** The id and the Message-ID of the email, if it is queued. */
  id?: string
  messageId?: string
}

/** Queues an email to a recipient. Nothing is written unless the result is `sent`. */
export function sendToRecipient(
  tx: Tx,
  deps: RecipientEmailDeps,
  email: RecipientEmail,
  now: number,
): RecipientEmailResult {
  const { domain, limit, tag, to } = email
  const counted = limit && { to, kind: tag, audience: limit.audience }
  if (counted && isLimited(tx, deps, counted, now, limit.perAddress)) return { result: 'limited' }
  const given = submissionOf(email, fromOf(tx, email))
  const submission = {
    userKey: domain.user_key,
    from: knownAddress(given.from),
    recipients: recipientsOf(given),
    given,
  }
  const files = { content: JSON.stringify(writtenBody(given)), names: [] }
  const hash = email.idempotencyKey === undefined ? null : payloadHash(given)
  // The queue sends it, so no claim is made that a rollback would have to return.
  const queued = { ...deps, claimNew: undefined }
  try {
    const accepted = accept(tx, queued, { submission, files, hash, id: newId(now), now, claims: [] })
    if (counted && !accepted.replayed) countEmail(tx, deps, counted, now)
    return { result: 'sent', id: accepted.email.id, messageId: accepted.email.message_id }
  } catch (thrown) {
    if (!(thrown instanceof Refusal)) throw thrown
    return { result: thrown.problems.some(({ code }) => code === 'recipient_suppressed') ? 'suppressed' : 'refused' }
  }
}

/** The sender: the name of the brand, with the first of its addresses that is on the domain. */
function fromOf(tx: Tx, { domain: { name, user_key }, from }: Pick<RecipientEmail, 'domain' | 'from'>): string {
  const { from_address, sender_name } = brandOf(tx, user_key)
  const own = [from, from_address].map((text) => (text ? knownAddress(text) : undefined))
  const sender = own.find((each) => each?.domain === name) ?? { address: `noreply@${name}`, name: '' }
  return formatAddress({ address: sender.address, name: sender.name || (sender_name ?? '') })
}

const submissionOf = (email: RecipientEmail, from: string): NewEmail => ({
  from,
  to: email.to,
  subject: forLine(email.subject),
  html: email.html ?? htmlOf(email),
  ...(email.html === undefined && { text: textOf(email) }),
  ...(email.replyTo && { reply_to: email.replyTo }),
  headers: [['Auto-Submitted', 'auto-generated']],
  tags: [email.tag],
  track_opens: false,
  track_clicks: false,
  ...(email.unsubscribe && { unsubscribe: email.unsubscribe }),
  ...(email.idempotencyKey !== undefined && { idempotency_key: email.idempotencyKey }),
})

/** The text part. A link is on its own line, after its label. */
function textOf({ after = [], button, text }: RecipientEmail): string {
  const parts = [...text, ...(button ? [button] : []), ...after]
  return `${parts.map((part) => (typeof part === 'string' ? part : `${part.label}:\n${part.url}`)).join('\n\n')}\n`
}

const BUTTON =
  'display:inline-block;padding:12px 20px;border-radius:8px;background:#1f5fd6;color:#ffffff;font-weight:600;text-decoration:none'

function htmlOf({ after = [], button, lang, subject, text }: RecipientEmail): string {
  const link = ({ label, url }: { label: string; url: string }, style = ''): string =>
    `<a href="${escapeHtml(url)}"${style}>${escapeHtml(label)}</a>`
  const paragraph = (content: string): string => `<p style="margin:0 0 16px;white-space:pre-line">${content}</p>\n`
  const parts = [
    ...text.map(escapeHtml),
    ...(button ? [link(button, ` style="${BUTTON}"`)] : []),
    ...after.map((each) => (typeof each === 'string' ? escapeHtml(each) : link(each))),
  ]
  return `<!doctype html>
<html lang="${lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(forLine(subject))}</title>
</head>
<body style="margin:0;padding:24px;font:16px/1.5 Helvetica,Arial,sans-serif">
<div style="max-width:560px;margin:0 auto">
${parts.map(paragraph).join('')}</div>
</body>
</html>
`
}
