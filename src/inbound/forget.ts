// Forgets an address in received mail: a message that names it loses its octets, its text and its header; that it came stays.
import { newId } from '../base/ids.ts'
import type { Tx } from '../store/database.ts'
import { betrays, type Erasing } from '../store/erasing.ts'
import { raw } from '../store/query.ts'

const AT_ONCE = 50

interface Stored {
  key: number
  mail_from: string
  recipients: string
  content: Uint8Array | null
  spool: string | null
  helo: string
  received: string
}

/** Works on some messages; `read` gives a file of the spool. Returns where to go on; null at the end. */
export function forgetInInbound(
  tx: Tx,
  erasing: Erasing,
  after: number,
  read: (file: string) => Uint8Array,
): { next: number | null; files: string[] } {
  const { address, mark, userKey } = erasing
  const found = tx.all(
    raw<Stored>(
      `select m.key, m.mail_from, m.recipients, m.content, m.spool, m.helo, m.received from inbound_messages m
       where m.key > ? and m.next_attempt_at is null
         and exists (select 1 from inbound_emails e where e.message_key = m.key and e.user_key = ?)
       order by m.key limit ${AT_ONCE}`,
      [after, userKey],
    ),
  )
  const files: string[] = []
  for (const message of found) {
    const { content, key, spool } = message
    const words = Buffer.from([message.mail_from, message.recipients, message.received].join('\n'))
    const named =
      betrays(words, address) ||
      (content !== null && betrays(content, address)) ||
      (spool !== null && betrays(read(spool), address)) ||
      bodyBetrays(tx, key, address)
    if (!named) continue
    if (isShared(tx, key, userKey)) {
      leaveMessage(tx, key, erasing)
      continue
    }
    if (spool !== null) files.push(spool)
    tx.run(
      raw(
        `update inbound_messages set mail_from = ?, recipients = '[]', helo = '', received = '', content = x'', spool = null,
           authentication = null where key = ?`,
        [mark, key],
      ),
    )
    tx.run(
      raw(
        `update inbound_bodies set headers = '{}', text = null, html = null, attachments = '[]' where message_key = ?`,
        [key],
      ),
    )
    forgetEmails(tx, key, erasing)
  }
  return { next: found.length === AT_ONCE ? found.at(-1)!.key : null, files }
}

function forgetEmails(tx: Tx, messageKey: number, { mark, userKey }: Erasing): void {
  tx.run(
    raw(
      `update inbound_emails set sender = ?, recipients = '[]', subject = null, "from" = null, "to" = '[]', cc = '[]', reply_to = '[]',
         message_id = null, in_reply_to = null, "references" = '[]', reason = coalesce(reason, 'Erased on request.')
       where message_key = ? and user_key = ?`,
      [mark, messageKey, userKey],
    ),
  )
}

/** Whether the message also came to an inbox of another account. */
function isShared(tx: Tx, messageKey: number, userKey: number): boolean {
  return (
    tx.first(
      raw('select 1 from inbound_emails where message_key = ? and user_key <> ? limit 1', [messageKey, userKey]),
    ) !== undefined
  )
}

/** Leaves a message to the other accounts that got it: what this one keeps of it is an empty one of its own. */
function leaveMessage(tx: Tx, messageKey: number, erasing: Erasing): void {
  const { received_at } = tx.first(
    raw<{ received_at: number }>('select received_at from inbound_messages where key = ?', [messageKey]),
  )!
  const { key } = tx.run(
    raw(
      `insert into inbound_messages (id, mail_from, recipients, client, helo, received, size, content, cut, virus, received_at, attempts)
       select ?, ?, '[]', client, '', '', size, x'', cut, virus, received_at, attempts from inbound_messages where key = ?`,
      [newId(received_at), erasing.mark, messageKey],
    ),
  )
  tx.run(raw(`insert into inbound_bodies (message_key, headers, attachments) values (?, '{}', '[]')`, [key]))
  forgetEmails(tx, messageKey, erasing)
  tx.run(
    raw('update inbound_emails set message_key = ? where message_key = ? and user_key = ?', [
      key,
      messageKey,
      erasing.userKey,
    ]),
  )
}

function bodyBetrays(tx: Tx, messageKey: number, address: string): boolean {
  const body = tx.first(
    raw<{ all: string }>(
      `select headers || char(10) || coalesce(text, '') || char(10) || coalesce(html, '') || attachments as "all"
       from inbound_bodies where message_key = ?`,
      [messageKey],
    ),
  )
  return body !== undefined && betrays(Buffer.from(body.all), address)
}
