// The result of a delivery attempt. Replies of other servers are values, never exceptions: a Verdict is the result for
// one recipient, with the reply or the cause (RFC 3463 codes, D25, D35).
import type { SmtpReply } from './reply.ts'

/** The step of the SMTP session that produced the result. */
export type Stage =
  | 'dns'
  | 'connect'
  | 'greeting'
  | 'ehlo'
  | 'starttls'
  | 'auth'
  | 'mail'
  | 'rcpt'
  | 'data'
  | 'final dot'
  | 'compose'

/** delivered: 250 after the final dot. deferred: retry later. bounced: permanently rejected. failed: cannot be
 * attempted. rejected: by this server. suppressed: the address is suppressed. waiting: this server could not attempt
 * delivery (D72), or the sending domain is not ready (D68): no server has evaluated the email, and no attempt counts.
 */
export type VerdictKind = 'delivered' | 'deferred' | 'bounced' | 'failed' | 'rejected' | 'suppressed' | 'waiting'

export interface Verdict {
  kind: VerdictKind
  stage: Stage
  /** Null when no server answered. */
  code: number | null
  enhanced: string | null
  text: string
  /** Whether the whole message was sent. If so, the email gets the status `sent`, whichever result follows (D25). */
  handed: boolean
  /** The host name of the receiving server, once it was reached. */
  host: string | null
  /** The TLS protocol, or null without TLS. */
  tls: string | null
  /** How the connection was protected (security.ts), or null before there was a receiving server. */
  security: string | null
  dialogue: string | null
  /** The sending IP address, if it is configured. */
  source?: string
  /** For problems of this server: the message for the operator. */
  cause?: string
  /** For `suppressed`: why the address is suppressed, unless the reason is another one. */
  suppression?: string
  /** The DNS record of the sending domain that is missing, if the email waits for it and not for this server. */
  record?: string
  /** Set if the email waits because it is corrupt in the database or the spool. Other email may be intact. */
  damaged?: true
  /**
   * Set for a deferral in which the receiving server requests a lower rate. The email is queued again, no attempt is
   * counted, and the queue for its recipient domain slows down.
   */
  soon?: true
}

export interface Circumstance {
  stage: Stage
  handed?: boolean
  host?: string | null
  tls?: string | null
  security?: string | null
  dialogue?: string | null
}

const basics = ({
  stage,
  handed = false,
  host = null,
  tls = null,
  security = null,
  dialogue = null,
}: Circumstance) => ({
  stage,
  handed,
  host,
  tls,
  security,
  dialogue,
})

/** Returns the verdict for a server's reply: 2xx delivered, 4xx deferred, 5xx bounced. */
export function verdictOf(reply: SmtpReply, circumstance: Circumstance): Verdict {
  const kind = reply.code < 400 ? 'delivered' : reply.code < 500 ? 'deferred' : 'bounced'
  return { ...basics(circumstance), kind, code: reply.code, enhanced: reply.enhanced, text: reply.text }
}

/**
 * A problem on this server prevented the attempt (D72). `cause` is for the operator. The sender of the email sees the
 * text below.
 */
export function waitsForUs(circumstance: Circumstance, cause?: string): Verdict {
  const verdict = ownVerdict(
    'waiting',
    '4.3.0',
    'A temporary problem on this server delays the email. Postrider retries it soon.',
    circumstance,
  )
  return cause === undefined ? verdict : { ...verdict, cause }
}

/** The verdict for an email that is corrupt in the database or the spool. `cause` as in `waitsForUs`. */
export const waitsForRepair = (circumstance: Circumstance, cause: string): Verdict => ({
  ...waitsForUs(circumstance, cause),
  damaged: true,
})

/**
 * The sending domain's DKIM record was missing at the last check: receivers could not verify a signature, so the email
 * is queued (D68).
 */
export function waitsForRecord(circumstance: Circumstance, record: string): Verdict {
  const text = `The DKIM record ${record} is missing in DNS. The email is queued until a check finds the record.`
  return { ...ownVerdict('waiting', '4.7.0', text, circumstance), record }
}

/** Returns a verdict of this server, without a reply. `enhanced` is the status code (RFC 3463 §3). */
export function ownVerdict(
  kind: Exclude<VerdictKind, 'delivered'>,
  enhanced: string,
  text: string,
  circumstance: Circumstance,
): Verdict {
  return { ...basics(circumstance), kind, code: null, enhanced, text }
}
