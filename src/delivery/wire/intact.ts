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

function damagedPart(
  email: MailTransaction['email'],
  deliveries: MailTransaction['deliveries'],
  lane: string,
): string | undefined {
  const domain = { ...email, name: email.domain }
  if (!isIntact('domains', domain, email.domain_digest)) return 'sending domain'
  if (!isIntact('outbound_emails', { ...email }, email.email_digest)) return 'header or sender'
  if (!isIntact('outbound_bodies', { content: email.content }, email.body_digest)) return 'body'
  if (!isWholeSpool(email.spool)) return 'list of files'
  const named = recipientsOf(email)
  return deliveries.every(({ address }) => named.has(address) && address.endsWith(`@${domainOf(lane)}`))
    ? undefined
    : 'recipient'
}

/** The addresses that a mail names. */
function recipientsOf({ bcc, cc, to }: MailTransaction['email']): Set<string> {
  const texts = [to, ...[cc, bcc].flatMap((json) => (json === null ? [] : (JSON.parse(json) as string[])))]
  return new Set(texts.map((text) => parseAddress(text)?.address ?? text))
}
