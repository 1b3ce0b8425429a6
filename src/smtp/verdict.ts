// The result of an attempt. Answers of other servers are values, never exceptions: a Verdict is the result for one
// recipient, with the reply or the cause (RFC 3463 codes, D25, D35).
import type { SmtpReply } from './reply.ts'

/** The step of the dialogue at which something ended. */
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

/** delivered: 250 after the final dot. deferred: try again. bounced: refused for good. failed: cannot be tried at all.
 * rejected: refused by ourselves. suppressed: the address may not be written to. waiting: this server could not try
 * (D72), or the sending domain is not ready (D68): the mail itself was not judged, and no attempt is counted. */
export type VerdictKind = 'delivered' | 'deferred' | 'bounced' | 'failed' | 'rejected' | 'suppressed' | 'waiting'

export interface Verdict {
  kind: VerdictKind
  stage: Stage
  /** Null when no server answered. */
  code: number | null
  enhanced: string | null
  text: string
  /** True once the message's octets were sent: the mail then counts as sent, with any later result (D25). */
  handed: boolean
  /** The exchanger's host name, once it was reached. */
  host: string | null
  /** TLS protocol, null in clear text. */
  tls: string | null
  /** How the attempt was protected (security.ts); null before there was an exchanger. */
  security: string | null
  dialogue: string | null
  /** The local address that was connected from, where the configuration names it. */
  source?: string
  /** For local trouble: the message for the operator. */
  cause?: string
  /** Set when the mail waits for this DNS record of its sending domain, and not for this server. */
  record?: string
  /** Set when the mail waits because it is damaged in the database or the spool; other mail may be intact. */
  damaged?: true
  /**
   * Set for a deferral in which the receiver asked for a lower rate. The mail goes back into the queue, no attempt is
   * counted, and its lane sends more slowly.
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

/** The verdict of a server's reply: 2xx delivered, 4xx deferred, 5xx bounced. */
export function verdictOf(reply: SmtpReply, circumstance: Circumstance): Verdict {
  const kind = reply.code < 400 ? 'delivered' : reply.code < 500 ? 'deferred' : 'bounced'
  return { ...basics(circumstance), kind, code: reply.code, enhanced: reply.enhanced, text: reply.text }
}

/**
 * Local trouble of this server prevented the attempt (D72).
 * `cause` is for the operator; the mail's owner sees the text below.
 */
export function waitsForUs(circumstance: Circumstance, cause?: string): Verdict {
  const verdict = ownVerdict(
    'waiting',
    '4.3.0',
    'The mail waits for this server, which tries again soon.',
    circumstance,
  )
  return cause === undefined ? verdict : { ...verdict, cause }
}

/** The mail is damaged in the database or the spool: it waits until it is repaired. `cause` as in `waitsForUs`. */
export const waitsForRepair = (circumstance: Circumstance, cause: string): Verdict => ({
  ...waitsForUs(circumstance, cause),
  damaged: true,
})

/**
 * The sending domain's DKIM record was not seen at the last check: receivers could not verify a signature, so the mail
 * waits (D68).
 */
export function waitsForRecord(circumstance: Circumstance, record: string): Verdict {
  const text = `The DKIM record ${record} was not seen in DNS at the last check of the sending domain; the mail waits for it.`
  return { ...ownVerdict('waiting', '4.7.0', text, circumstance), record }
}

/** A verdict of this server, without an answer of another server; `enhanced` is the status code (RFC 3463 §3). */
export function ownVerdict(
  kind: Exclude<VerdictKind, 'delivered'>,
  enhanced: string,
  text: string,
  circumstance: Circumstance,
): Verdict {
  return { ...basics(circumstance), kind, code: null, enhanced, text }
}
