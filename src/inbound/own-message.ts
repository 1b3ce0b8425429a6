// A message that this server writes into an inbox itself, such as that of a contact form. It is examined and recorded
// like one that came by SMTP, from the address of this machine.
import { newId } from '../base/ids.ts'
import { rfc5322Date } from '../message/compose.ts'
import type { Tx } from '../store/database.ts'
import { insertMessage } from './receive.ts'
import { insertWaiting } from './claims.ts'
import type { InboundRecipient } from './recipients.ts'

/** The signal of a commit that holds a message of this server. */
export const OWN_MESSAGE = 'own message'

const CLIENT = '127.0.0.1'

/** Writes a whole message for an inbox. The engine reads it after the commit. */
export function writeOwnMessage(
  tx: Tx,
  { hostname, inbox, message }: { hostname: string; inbox: { key: number; address: string }; message: string },
  now: number,
): void {
  const id = newId(now)
  const recipient: InboundRecipient = { kind: 'inbox', address: inbox.address, inboxes: [inbox.key] }
  const content = Buffer.from(message)
  const { key } = tx.run(
    insertMessage({
      id,
      mail_from: '',
      recipients: JSON.stringify([recipient]),
      client: CLIENT,
      helo: hostname,
      received: `Received: by ${hostname} with HTTP id ${id};\r\n\t${rfc5322Date(now)}\r\n`,
      size: content.length,
      content,
      spool: null,
      cut: 0,
      virus: null,
      received_at: now,
      attempts: 0,
    }),
  )
  tx.run(insertWaiting({ message_key: key, attempts: 0, next_attempt_at: now }))
  tx.signal(OWN_MESSAGE)
}
