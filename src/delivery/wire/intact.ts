// Checks that a claimed mail is unchanged since it was accepted: its texts and its sending domain by their digests, its
// recipients by the address fields of the mail, which must name each of them. Damaged text is never sent, and no mail
// goes to an address that it does not name.
import type { Log } from '../../base/log.ts'
import { parseAddress } from '../../message/address.ts'
import { waitsForRepair, type Verdict } from '../../smtp/verdict.ts'
import { isIntact } from '../../store/digests.ts'
import { isWholeSpool } from '../../base/spooled.ts'
import type { MailTransaction } from '../queue/transaction.ts'
import { domainOf } from '../../message/lane-names.ts'

/** Logs the damage of a mail and returns the verdict: the mail waits until it is repaired. */
export function damaged(log: Log, id: string, damage: string): Verdict {
  log.error('mail is damaged', { id, error: damage })
  return waitsForRepair({ stage: 'compose' }, damage)
}

/** The damaged part of a mail, in a sentence with the mail's id; undefined when the mail is intact. */
export function damageOf({ deliveries, email, lane }: MailTransaction): string | undefined {
  const part = damagedPart(email, deliveries, lane)
  return part && `Mail ${email.id} is not sent: its ${part} in the database is not what was accepted.`
}

/** Digests of sending domains that were proven. All mails of a domain that was read once have the same object. */
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
  if (!isWholeSpool(email.spool)) return 'list of files'
  const domain = `@${domainOf(lane)}`
  // The usual mail names its only recipient as the queue has it.
  const named = deliveries.every(({ address }) => address === email.to) ? undefined : recipientsOf(email)
  return deliveries.every(({ address }) => (named?.has(address) ?? true) && address.endsWith(domain))
    ? undefined
    : 'recipient'
}

/** The addresses that a mail names. */
function recipientsOf({ bcc, cc, to }: MailTransaction['email']): Set<string> {
  const texts = [to, ...[cc, bcc].flatMap((json) => (json === null ? [] : (JSON.parse(json) as string[])))]
  return new Set(texts.map((text) => parseAddress(text)?.address ?? text))
}
