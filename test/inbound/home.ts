// Messages that return to Postrider, as tests write them: delivery reports (RFC 3464), complaints (RFC 5965) and
// replies. Also sends an email first, so that its return path is the one that a receiving server saw.
import assert from 'node:assert/strict'
import { raw } from '../../src/store/query.ts'
import type { Verdict } from '../../src/smtp/verdict.ts'
import type { TestAppliance } from '../kit/appliance.ts'
import type { Heard, TestExchanger } from '../kit/exchanger.ts'
import { deliver, type Sent } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { mailsOf, type Mails } from '../mail/mails.ts'

export interface Gone {
  id: string
  /** The envelope sender that the receiving server saw. */
  returnPath: string
  heard: Heard
}

export interface Entry {
  email: string
  reason: string
  scope: string
  source: string
  expires_at: string | null
}

export interface Home extends Mails {
  /** Posts an email and waits until the receiving server has heard it. */
  handOver: (attributes?: Record<string, unknown>) => Promise<Gone>
  /** The same, until it is delivered. */
  send: (attributes?: Record<string, unknown>) => Promise<Gone>
  /** Delivers a message to the listener and waits until it was read. */
  comeHome: (sent: Sent) => Promise<Verdict[]>
  /** The suppressions of an address, as the API lists them. */
  suppressions: (address: string) => Promise<Entry[]>
  stats: (id: string) => Promise<Record<string, number | null>>
  /** The names of the received emails' subjects, newest first. */
  received: () => Promise<string[]>
  notices: () => { subject: string; text: string; user_key: number }[]
}

let count = 0

export function homeOf(postrider: () => TestAppliance, exchanger: () => TestExchanger): Home {
  const mails = mailsOf(postrider)
  const handOver: Home['handOver'] = async (attributes = {}) => {
    const subject = `Number ${++count}`
    const id = await mails.post({ subject, ...attributes })
    const heard = await until(
      () => exchanger().heard.find(({ message }) => message.includes(`\r\nSubject: ${subject}\r\n`)),
      `${subject} at the exchanger`,
    )
    return { id, returnPath: heard.from, heard }
  }
  return {
    ...mails,
    handOver,
    async send(attributes) {
      const gone = await handOver(attributes)
      await mails.become(gone.id, 'delivered')
      return gone
    },
    async comeHome(sent) {
      const { smtp, deps } = postrider().appliance
      const verdicts = await deliver(smtp[0]!, sent)
      await until(
        () => deps.store.first(raw('select 1 from inbound_waiting')) === undefined,
        'the reading of the report',
      )
      return verdicts
    },
    async suppressions(address) {
      const { body } = await postrider().api('GET', `/suppressions?filter[email]=${encodeURIComponent(address)}`)
      return (body.data as { attributes: Entry }[]).map(({ attributes }) => ({
        email: attributes.email,
        reason: attributes.reason,
        scope: attributes.scope,
        source: attributes.source,
        expires_at: attributes.expires_at,
      }))
    },
    async stats(id) {
      const { body, status } = await postrider().api('GET', `/outbound-emails/${id}/stats`)
      assert.equal(status, 200)
      return body.data.attributes
    },
    async received() {
      const { body } = await postrider().api('GET', '/inbound-emails?page[size]=100')
      return (body.data as { attributes: { subject: string } }[]).map(({ attributes }) => attributes.subject)
    },
    notices: () =>
      postrider().appliance.deps.store.all(
        raw<{ subject: string; text: string; user_key: number }>(
          'select subject, text, user_key from notices order by key',
        ),
      ),
  }
}

export interface Block {
  recipient?: string
  original?: string
  action?: string
  status?: string
  said?: string
}

/** A block of a delivery report about one recipient. */
export const block = ({
  recipient = 'bob@there.test',
  original,
  action = 'failed',
  status = '5.1.1',
  said = '550 5.1.1 No such user here',
}: Block = {}): string =>
  [
    ...(original === undefined ? [] : [`Original-Recipient: rfc822; ${original}`]),
    `Final-Recipient: rfc822; ${recipient}`,
    `Action: ${action}`,
    `Status: ${status}`,
    'Remote-MTA: dns; store.there.test',
    ...(said === '' ? [] : [`Diagnostic-Code: smtp; ${said}`]),
  ].join('\n')

/** A delivery status notification (RFC 3464) as a receiving server sends it. */
export const report = (to: string, blocks: readonly string[] = [block()], copy = 'Subject: A copy\n'): string =>
  `From: Mail Delivery System <MAILER-DAEMON@mx.there.test>
To: ${to}
Subject: Undelivered Mail Returned to Sender
Auto-Submitted: auto-replied
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="limit"

--limit
Content-Type: text/plain

This is the mail system at mx.there.test.
--limit
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.there.test

${blocks.join('\n\n')}

--limit
Content-Type: text/rfc822-headers

${copy}
--limit--
`

/** A feedback report (RFC 5965). `copy` is our mail as it arrived. */
export const feedback = (to: string, type: string, recipient: string | undefined, copy: string): string =>
  `From: feedback@there.test
To: ${to}
Subject: Abuse report
MIME-Version: 1.0
Content-Type: multipart/report; report-type=feedback-report; boundary="limit"

--limit
Content-Type: text/plain

A report on a mail.
--limit
Content-Type: message/feedback-report

Feedback-Type: ${type}
User-Agent: Loop/1
Version: 1
${recipient === undefined ? '' : `Original-Rcpt-To: ${recipient}\n`}
--limit
Content-Type: message/rfc822

${copy.replaceAll('\r\n', '\n')}
--limit--
`

/** An ordinary mail, with further header lines. */
export const letter = (to: string, subject: string, more = '', text = 'Hello.'): string =>
  `From: Bob <bob@there.test>\nTo: ${to}\nSubject: ${subject}\nMessage-ID: <${++count}@there.test>\n${more}\n${text}\n`
