// Responses from the sandbox's MX host, which show how reports and replies look: a delivery status
// notification (RFC 3464), a complaint (RFC 5965), a person's reply. They go by SMTP to the listener of the sandbox.
import { rfc5322Date } from '../../message/compose.ts'
import { headerField, unstructured } from '../../message/headers.ts'
import { openSession } from '../../smtp/client.ts'
import { upTo } from '../../base/text.ts'

export interface Answered {
  hostname: string
  /** The listener of the sandbox, to which the answers are sent. */
  listener: { host: string; port: number }
  now: number
}

export interface Arrived {
  from: string
  recipient: string
  message: Buffer
  headers: { subject: string; messageId: string; references: string; replyTo: string }
}

const lines = (...text: string[]): string => `${text.join('\r\n')}\r\n`

const head = ({ hostname, now }: Answered, from: string, to: string, subject: string): string[] => [
  `From: ${from}`,
  `To: ${to}`,
  unstructured('Subject', subject).trimEnd(),
  `Date: ${rfc5322Date(now)}`,
  `Message-ID: <${now.toString(36)}.${Math.random().toString(36).slice(2)}@${hostname}>`,
  'MIME-Version: 1.0',
]

const headerOf = (message: Buffer): string => upTo(message.toString('latin1'), '\r\n\r\n')

/** A bounce message from an MX host that accepted the email first. */
export function bounceOf(by: Answered, { from, recipient, message }: Arrived): string {
  return lines(
    ...head(by, `Mail Delivery System <MAILER-DAEMON@${by.hostname}>`, from, 'Undelivered Mail Returned to Sender'),
    'Auto-Submitted: auto-replied',
    'Content-Type: multipart/report; report-type=delivery-status; boundary="sandbox"',
    '',
    '--sandbox',
    'Content-Type: text/plain',
    '',
    `Your email could not be delivered to ${recipient}: this mailbox bounces on purpose.`,
    '--sandbox',
    'Content-Type: message/delivery-status',
    '',
    `Reporting-MTA: dns; ${by.hostname}`,
    '',
    `Final-Recipient: rfc822; ${recipient}`,
    'Action: failed',
    'Status: 5.1.1',
    'Diagnostic-Code: smtp; 550 5.1.1 User unknown: this mailbox bounces on purpose',
    '',
    '--sandbox',
    'Content-Type: text/rfc822-headers',
    '',
    headerOf(message),
    '',
    '--sandbox--',
  )
}

/** A complaint from the recipient's provider, as after a click on "spam": SPF of its domain proves its sender (D62). */
export function complaintOf(by: Answered, { from, recipient, message }: Arrived): string {
  return lines(
    ...head(by, `Feedback <feedback@${recipient.slice(recipient.lastIndexOf('@') + 1)}>`, from, 'Abuse report'),
    'Content-Type: multipart/report; report-type=feedback-report; boundary="sandbox"',
    '',
    '--sandbox',
    'Content-Type: text/plain',
    '',
    'The recipient reported this email as spam.',
    '--sandbox',
    'Content-Type: message/feedback-report',
    '',
    'Feedback-Type: abuse',
    'User-Agent: PostriderSandbox/1',
    'Version: 1',
    `Original-Rcpt-To: ${recipient}`,
    '',
    '--sandbox',
    'Content-Type: message/rfc822',
    '',
    message.toString('latin1'),
    '--sandbox--',
  )
}

/** A reply as a person writes it. */
export function replyOf(by: Answered, { recipient, headers }: Arrived): string {
  const { messageId, references, replyTo, subject } = headers
  return lines(
    ...head(by, recipient, replyTo, /^re:/i.test(subject) ? subject : `Re: ${subject}`),
    `In-Reply-To: ${messageId}`,
    headerField('References', `${references} ${messageId}`.trimStart()).trimEnd(),
    'Content-Type: text/plain; charset=utf-8',
    '',
    'Thanks, got it.',
  )
}

/** Delivers an answer. Throws when the listener refuses it. */
export async function post({ hostname, listener }: Answered, from: string, to: string, message: string): Promise<void> {
  const session = await openSession({
    host: hostname,
    address: listener.host,
    port: listener.port,
    hostname,
    tls: 'optional',
  })
  if ('kind' in session) throw new Error(session.text)
  const wire = Buffer.from(`${message.replace(/^\./gm, '..')}.\r\n`, 'latin1')
  const [verdict] = await session.send({ from, recipients: [to] }, wire)
  void session.quit()
  if (verdict?.kind !== 'delivered') throw new Error(verdict?.text ?? 'no answer')
}
