// Turns a claimed mail into the job for the composer and the envelope for the exchanger.
import type { Config } from '../../base/config.ts'
import type { Keyring } from '../../base/keyring.ts'
import { knownAddress, type Address } from '../../message/address.ts'
import { AI_DISCLOSURE } from '../../message/custom-headers.ts'
import { returnPathToken } from '../../message/return-path.ts'
import type { Tracking } from '../../message/tracking.ts'
import type { ComposeJob, Signing } from '../../message/letters.ts'
import type { Envelope } from '../../smtp/client.ts'
import type { Spool } from '../../store/spool.ts'
import { filesOf } from '../../base/spooled.ts'
import { firstOf, type ClaimedEmail, type MailTransaction } from '../queue/transaction.ts'

export interface LetterDeps {
  keyring: Keyring
  spool: Spool
  config: Pick<Config, 'http'>
}

const list = (json: string | null): Address[] => (json === null ? [] : (JSON.parse(json) as string[]).map(knownAddress))

/** The job that makes the letter's bytes; undefined when its body is no longer kept. */
export function composeJob(deps: LetterDeps, work: MailTransaction, signature: Signing): ComposeJob | undefined {
  const job = unsignedJob(deps, work)
  return job && { ...job, signature }
}

/** The job without the signature. */
export function unsignedJob(
  { keyring, spool, config }: LetterDeps,
  work: Pick<MailTransaction, 'deliveries' | 'email'>,
): Omit<ComposeJob, 'signature'> | undefined {
  const { email } = work
  const [file] = filesOf(email.spool)
  const content = email.content === null ? file && { file: spool.path(file) } : { text: email.content }
  if (!content) return undefined
  const { key } = firstOf(work)
  const mailFrom = `${email.mail_from_prefix}.${email.domain}`
  return {
    mail: {
      from: knownAddress(email.from),
      to: [knownAddress(email.to)],
      cc: list(email.cc),
      replyTo: list(email.reply_to),
      subject: email.subject,
      messageId: email.message_id,
      date: email.created_at,
      extra: [
        ...(email.ai_disclosure === 1 ? [AI_DISCLOSURE] : []),
        // campaign:customer:kind:sender, the order in which mailbox providers read it (D31).
        ['Feedback-ID', `0:${email.user_id}:transactional:${email.domain}`],
        // RFC 9477: complaints come to the return path, whose token proves which mail they mean.
        ['CFBL-Address', `${returnPathToken(keyring, key)}@${mailFrom}; report=arf`],
      ],
      tracking: trackingOf(keyring, config, email, key),
    },
    content,
    spool: spool.path(''),
  }
}

/** The base URL of tracked links: our host, or the customer's own once its DNS record is there (D38). */
export function trackingBase({ http }: Pick<Config, 'http'>, email: ClaimedEmail): string {
  const branded = email.tracking_redirect_mode === 'branded' && email.branded === 1
  return branded ? `https://links.${email.domain}` : http.public_url
}

function trackingOf(
  keyring: Keyring,
  { http }: Pick<Config, 'http'>,
  email: ClaimedEmail,
  delivery: number,
): Tracking | null {
  if (email.opens_tracked === 0 && email.clicks_tracked === 0) return null
  return {
    base: trackingBase({ http }, email),
    key: keyring.derive('tracking').toString('base64'),
    delivery,
    opens: email.opens_tracked === 1,
    clicks: email.clicks_tracked === 1,
  }
}

/** The return path names the first recipient of the transaction; a report names the recipient that it is about. */
export function envelopeOf(work: MailTransaction, keyring: Keyring): Envelope {
  const { deliveries, email } = work
  return {
    from: `${returnPathToken(keyring, firstOf(work).key)}@${email.mail_from_prefix}.${email.domain}`,
    recipients: deliveries.map(({ address }) => address),
  }
}
