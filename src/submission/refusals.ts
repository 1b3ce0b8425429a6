// The refusals of POST /outbound-emails as SMTP replies (docs/smtp.md): one table, so that each rule has one meaning.
import type { Code, Refusal } from '../base/errors.ts'
import type { SmtpRefusal } from '../smtp/answers.ts'

/** Code and enhanced code by the API's error code (RFC 5321 §4.2.3, RFC 3463). */
const REPLIES: Partial<Record<Code, readonly [code: number, enhanced: string]>> = {
  not_found: [550, '5.7.1'],
  domain_not_active: [550, '5.7.1'],
  recipient_suppressed: [550, '5.7.1'],
  subscription_inactive: [550, '5.7.1'],
  agent_paused: [550, '5.7.1'],
  tracking_disabled: [554, '5.5.4'],
  idempotency_conflict: [554, '5.5.4'],
  volume_exceeded: [452, '4.2.2'],
  insufficient_storage: [452, '4.3.1'],
  overloaded: [451, '4.3.2'],
  message_too_large: [552, '5.3.4'],
  forbidden_attachment: [554, '5.7.0'],
}
const ELSE = [554, '5.6.0'] as const
/** A reply line has 512 octets with its codes (RFC 5321 §4.5.3.1.5). */
const MAX_TEXT = 400

export function replyTo({ problems }: Refusal): SmtpRefusal {
  const [first] = problems
  const [code, enhanced] = (first && REPLIES[first.code]) ?? ELSE
  return { code, text: `${enhanced} ${wordsOf(problems.map(({ detail }) => detail).join(' '))}` }
}

/**
 * Text that fits on one line of a reply, in ASCII (RFC 5321 §4.2). Common signs are replaced by words or ASCII signs,
 * so that the sentence keeps its meaning.
 */
export const wordsOf = (text: string): string =>
  text
    .replace(/(?<!\s)\s?§\s?/g, ' section ')
    .replace(/…/g, '...')
    .replace(/[‘’]/g, "'")
    .replace(/[“”]/g, '"')
    .replace(/[–—]/g, '-')
    .replace(/[^\x20-\x7e]+/g, '?')
    .trim()
    .slice(0, MAX_TEXT)
