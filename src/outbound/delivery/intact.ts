// Whether a claimed mail is what was accepted: its texts and its sending domain by their digests, its recipients by the
// mail itself, in whose texts each of them stands. Damage in the database is never sent, and to nobody whom no mail
// names.
import type { Log } from '../../base/log.ts'
import { parseAddress } from '../../message/address.ts'
import { waitsForRepair, type Verdict } from '../../smtp/verdict.ts'
import { isIntact } from '../../store/digests.ts'
import { isWholeSpool } from '../body.ts'
import type { MailTransaction } from './transaction.ts'
import { domainOf } from '../lane-names.ts'

/** Logs what of a mail is damaged, and gives the verdict: it waits for its repair. */
export function damaged(log: Log, id: string, damage: string): Verdict {
  log.error('mail is damaged', { id, error: damage })
  return waitsForRepair({ stage: 'compose' }, damage)
}

/** What of a mail is damaged, in a sentence that names its id; undefined when it is whole. Reads its texts once. */
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
