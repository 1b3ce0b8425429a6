// From a claimed consignment to what the composer and the exchanger need: the letter and its envelope.
import type { Keyring } from '../base/keyring.ts'
import { parseAddress, type Address } from '../message/address.ts'
import { returnPathToken } from '../message/return-path.ts'
import type { ComposeJob } from '../message/worker.ts'
import type { Envelope } from '../smtp/client.ts'
import type { Spool } from '../store/spool.ts'
import type { SigningKey } from '../domains/keys.ts'
import type { Consignment } from './claim.ts'

// What stands in the store was parsed when it was accepted.
const known = (text: string): Address => parseAddress(text)!

/** The job that makes the letter's bytes; undefined when its body is no longer kept. */
export function composeJob({ email }: Consignment, key: SigningKey, spool: Spool): ComposeJob | undefined {
  const content =
    email.content !== null
      ? { json: email.content }
      : email.spool !== null
        ? { file: spool.path(email.spool) }
        : undefined
  if (!content) return undefined
  const mailFrom = `${email.mail_from_prefix}.${email.domain}`
  return {
    mail: {
      from: known(email.from),
      to: [known(email.to)],
      replyTo: email.reply_to === null ? [] : (JSON.parse(email.reply_to) as string[]).map(known),
      subject: email.subject,
      messageId: email.message_id,
      date: email.created_at,
      extra: [
        // campaign:customer:kind:sender, the order that mailbox providers read (D31).
        ['Feedback-ID', `0:${email.user_id}:transactional:${email.domain}`],
        ['CFBL-Address', `fbl@${mailFrom}; report=arf`],
      ],
    },
    content,
    signature: { domain: email.domain, selector: key.selector, keyId: key.keyId, privateKey: key.privateKey },
  }
}

/** The return path names the first recipient of the transaction; a report's own recipient tells which one it means. */
export function envelopeOf({ email, deliveries }: Consignment, keyring: Keyring): Envelope {
  return {
    from: `${returnPathToken(keyring, deliveries[0]!.key)}@${email.mail_from_prefix}.${email.domain}`,
    recipients: deliveries.map(({ address }) => address),
  }
}
