// Turns a claimed mail into the job for the composer and the envelope for the receiving server.
import type { Clock } from '../../base/clock.ts'
import type { Config } from '../../base/config.ts'
import type { Keyring } from '../../base/keyring.ts'
import { knownAddress, type Address, parseAddress } from '../../message/address.ts'
import { AI_DISCLOSURE } from '../../message/headers.ts'
import { returnPathToken, unsubscribeLocalPart, unsubscribeMailto } from '../../message/return-path.ts'
import type { Tracking } from '../../message/tracking.ts'
import type { ComposeJob, Signing } from '../../message/letters.ts'
import type { Envelope } from '../../smtp/client.ts'
import type { Spool } from '../../store/spool.ts'
import { filesOf, isWholeSpool } from '../../base/spooled.ts'
import { TRACKING_LABEL } from '../../domains/records.ts'
import { firstOf, type ClaimedEmail, type MailTransaction } from '../queue/transaction.ts'
import type { Log } from '../../base/log.ts'
import { waitsForRepair, type Verdict } from '../../smtp/verdict.ts'
import { isIntact } from '../../store/digests.ts'
import { domainOf, isBulk } from '../../message/lane-names.ts'

export interface LetterDeps {
  clock: Clock
  keyring: Keyring
  spool: Spool
  config: Pick<Config, 'http'>
}

const list = (json: string | null): Address[] => (json === null ? [] : (JSON.parse(json) as string[]).map(knownAddress))

/** The job to compose an email, or undefined if its body is no longer kept. */
export function composeJob(deps: LetterDeps, work: MailTransaction, signature: Signing): ComposeJob | undefined {
  const job = unsignedJob(deps, work)
  return job && { ...job, signature }
}

/** The job without the signature. */
export function unsignedJob(
  deps: LetterDeps,
  work: Pick<MailTransaction, 'deliveries' | 'email'>,
): Omit<ComposeJob, 'signature'> | undefined {
  const { keyring, spool } = deps
  const { email } = work
  const { content: values, batch_syntax: syntax } = email
  const body = syntax === null ? email : { content: email.batch_content, spool: email.batch_spool }
  const [file] = filesOf(body.spool)
  const content = body.content === null ? file && { file: spool.path(file) } : { text: body.content }
  if (!content || (syntax !== null && values === null)) return undefined
  const { key, lane } = firstOf(work)
  const mailFrom = `${email.mail_from_prefix}.${email.domain}`
  return {
    mail: {
      from: knownAddress(email.from),
      to: [knownAddress(email.to)],
      cc: list(email.cc),
      replyTo: list(email.reply_to),
      subject: email.subject,
      messageId: email.message_id,
      date: email.scheduled_at ?? email.created_at,
      extra: [
        ...(email.ai_disclosure === 1 ? [AI_DISCLOSURE] : []),
        // campaign:customer:kind:sender, the order in which mailbox providers read it (D31).
        ['Feedback-ID', `0:${email.user_id}:${isBulk(lane) ? 'bulk' : 'transactional'}:${email.domain}`],
        // RFC 9477: complaints go to the return path, whose token proves which email they are about.
        ['CFBL-Address', `${returnPathToken(keyring, key)}@${mailFrom}; report=arf`],
      ],
      tracking: trackingOf(deps, email, key),
    },
    content,
    fill: syntax !== null && values !== null ? { syntax, values } : undefined,
    mailto: unsubscribeMailto(unsubscribeLocalPart(keyring, key), mailFrom),
    spool: spool.path(''),
  }
}

/**
 * The base URL of tracked links: the domain's own host while it has a certificate, otherwise this server's (D38, D215).
 */
export function trackingBase({ clock, config }: Pick<LetterDeps, 'clock' | 'config'>, email: ClaimedEmail): string {
  const branded = email.tracking_redirect_mode === 'branded' && (email.links_until ?? 0) > clock.now()
  return branded ? `https://${TRACKING_LABEL}.${email.domain}` : config.http.public_url
}

function trackingOf(deps: Omit<LetterDeps, 'spool'>, email: ClaimedEmail, delivery: number): Tracking | null {
  if (email.opens_tracked === 0 && email.clicks_tracked === 0) return null
  return {
    base: trackingBase(deps, email),
    key: deps.keyring.derive('tracking').toString('base64'),
    delivery,
    opens: email.opens_tracked === 1,
    clicks: email.clicks_tracked === 1,
  }
}

/**
 * The return path has the token of the transaction's first recipient. A report names the recipient that it is about.
 */
export function envelopeOf(work: MailTransaction, keyring: Keyring): Envelope {
  const { deliveries, email } = work
  return {
    from: `${returnPathToken(keyring, firstOf(work).key)}@${email.mail_from_prefix}.${email.domain}`,
    recipients: deliveries.map(({ address }) => address),
  }
}

// Checks that a claimed email is unchanged since it was accepted: its texts and its sending domain by their digests,
// its recipients by the address fields, which must contain each of them. Corrupt text is never sent, and no email is
// sent to an address outside its fields.

/** Logs that an email is corrupt and returns the verdict: the email waits until it is repaired. */
export function damaged(log: Log, id: string, damage: string): Verdict {
  log.error('email_corrupt', { id, error: damage })
  return waitsForRepair({ stage: 'compose' }, damage)
}

/** The corrupt part of an email, in a sentence with the email's id, or undefined if the email is intact. */
export function damageOf({ deliveries, email, lane }: MailTransaction): string | undefined {
  const part = damagedPart(email, deliveries, lane)
  return part && `Email ${email.id} is not sent: its ${part} in the database is corrupt.`
}

/** Verified digests of sending domains. All emails of a domain that was read once have the same object. */
const proven = new WeakSet<Uint8Array>()

function isIntactDomain(email: MailTransaction['email']): boolean {
  const { domain_digest: digest } = email
  if (digest !== null && proven.has(digest)) return true
  const intact = isIntact('domains', { ...email, name: email.domain }, digest)
  if (intact && digest !== null) proven.add(digest)
  return intact
}

function damagedPart(
  email: MailTransaction['email'],
  deliveries: MailTransaction['deliveries'],
  lane: string,
): string | undefined {
  if (!isIntactDomain(email)) return 'sending domain'
  if (!isIntact('outbound_emails', { ...email }, email.email_digest)) return 'header or sender'
  if (!isIntact('outbound_bodies', { content: email.content }, email.body_digest)) return 'body'
  if (!isIntact('outbound_batches', { content: email.batch_content }, email.batch_digest)) return 'shared body'
  if (![email.spool, email.batch_spool].every(isWholeSpool)) return 'list of files'
  const domain = `@${domainOf(lane)}`
  // The usual email has its only recipient in the form of the queue.
  const named = deliveries.every(({ address }) => address === email.to) ? undefined : recipientsOf(email)
  return deliveries.every(({ address }) => (named?.has(address) ?? true) && address.endsWith(domain))
    ? undefined
    : 'recipient'
}

function recipientsOf({ bcc, cc, to }: MailTransaction['email']): Set<string> {
  const texts = [to, ...[cc, bcc].flatMap((json) => (json === null ? [] : (JSON.parse(json) as string[])))]
  return new Set(texts.map((text) => parseAddress(text)?.address ?? text))
}
