// Whether a reply is about this server and its address, and not about the mail or its recipient.
import type { Stage, Verdict } from './verdict.ts'

/** Replies that request fewer connections, or fewer messages per connection. */
export const CROWDED =
  /too many (?:concurrent |simultaneous )?(?:connections|sessions)|(?:messages?|mails?|recipients?) (?:per|in|for|on) (?:this |one |a |the )?(?:connection|session)/i

/** Replies that request a lower rate. */
const THROTTLED =
  /\brates?\b|rate.?limit|throttl|unexpected volume|too (?:fast|quickly)|slow down|too much mail|too many (?:messages|e-?mails|mails)/i

/** The receiver does not want mail from this address. */
const BLOCKED = /\bblock(?:ed|list)|blacklist|denylist|\blisted\b|reputation|\bbanned\b/i

/** Stages at which a reply to one message may apply to all mail. */
export const MAIL_STAGES: readonly Stage[] = ['mail', 'rcpt', 'data', 'final dot']

/** A rate answer: the receiver accepts mail, but at a lower rate. Greylisting is about one mail, not the sender. */
export const asksForLess = ({ code, enhanced, kind, stage, text }: Verdict): boolean =>
  // X.2.X is about a single mailbox (RFC 3463 §3.3).
  kind === 'deferred' &&
  code !== null &&
  MAIL_STAGES.includes(stage) &&
  !enhanced?.startsWith('4.2.') &&
  THROTTLED.test(text) &&
  !CROWDED.test(text)

/** Whether the receiver blocks the sending IP address, according to the reply. */
export const isBlock = ({ code, text }: Verdict): boolean => code !== null && BLOCKED.test(text)

/** Whether a deferral is about the address that mail came from: another address may still be welcome. */
export const isAboutSource = (verdict: Verdict): boolean => verdict.code === 421 || isBlock(verdict)
