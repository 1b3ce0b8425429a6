// Erases an address from received mail: the bytes, text and header of a message that names it are deleted. Its rows
// stay. When the message belongs to other accounts too, their copy stays, and this account gets an empty copy.
import { newId } from '../base/ids.ts'
import type { Reader, Tx } from '../store/database.ts'
import { betrays, redact, redacting, sliceEnd, type Erasing } from '../store/erasing.ts'
import { raw } from '../store/query.ts'

const AT_ONCE = 50

interface InboundToForget {
  key: number
  mail_from: string
  recipients: string
  content: Uint8Array | null
  spool: string | null
  helo: string
  received: string
}

/** Messages of inboxes, and those that are kept for a report. */
const OWNED = `? in (select e.user_key from inbound_emails e where e.message_key = inbound_messages.key
  union all select r.user_key from aggregate_reports r where r.message_key = inbound_messages.key)`

/** Erases the addresses of removed inboxes. The address of an active inbox belongs to the account itself. */
export const forgetInOldInboxes = redacting('inboxes', ['address'], 'deleted_at is not null and user_key = ?')

/** Erases in some messages. `read` gives a file of the spool. Returns the key to continue from, or null at the end. */
export function forgetInInbound(
  tx: Tx,
  erasing: Erasing,
  after: number,
  read: (file: string) => Uint8Array,
): { next: number | null; files: string[] } {
  const { userKey } = erasing
  const end = sliceEnd(tx, { table: 'inbound_messages', owned: OWNED, userKey, after, most: AT_ONCE })
  if (end === null) return { next: null, files: [] }
  const found = tx.all(
    raw<InboundToForget>(
      `select key, mail_from, recipients, content, spool, helo, received from inbound_messages
       where ${OWNED} and key > ? and key <= ? order by key`,
      [userKey, after, end],
    ),
  )
  const files: string[] = []
  for (const message of found) {
    if (!namedIn(tx, message, erasing, read)) continue
    const shared = tx.first(
      raw('select 1 from inbound_emails where message_key = ? and user_key <> ?', [message.key, userKey]),
    )
    const key = shared ? emptied(tx, message.key, erasing) : message.key
    if (!shared) {
      if (message.spool !== null) files.push(message.spool)
      empty(tx, message.key, erasing)
    }
    forgetEmails(tx, message.key, key, erasing)
  }
  return { next: end, files }
}

/** Whether a message that is not parsed yet names the address. Then the erasure must run again. */
export function unreadNames(reader: Reader, { address }: Erasing, read: (file: string) => Uint8Array): boolean {
  return reader
    .all(
      raw<InboundToForget>(
        `select key, mail_from, recipients, content, spool, helo, received from inbound_messages
         where key in (select message_key from inbound_waiting)`,
      ),
    )
    .some((message) => messageBetrays(message, address, read))
}

function messageBetrays(
  { content, helo, mail_from, received, recipients, spool }: InboundToForget,
  address: string,
  read: (file: string) => Uint8Array,
): boolean {
  return (
    betrays(Buffer.from([mail_from, recipients, received, helo].join('\n')), address) ||
    (content !== null && betrays(content, address)) ||
    (spool !== null && betrays(read(spool), address))
  )
}

function namedIn(
  tx: Tx,
  message: InboundToForget,
  { address, userKey }: Erasing,
  read: (file: string) => Uint8Array,
): boolean {
  if (messageBetrays(message, address, read) || bodyBetrays(tx, message.key, address)) return true
  const rows = tx.all(
    raw<Record<string, string | null>>(
      `select sender, recipients, subject, "from", "to", cc, reply_to, message_id, in_reply_to, "references", reason, authentication
       from inbound_emails where message_key = ? and user_key = ?`,
      [message.key, userKey],
    ),
  )
  return rows.some((row) => betrays(Buffer.from(Object.values(row).join('\n')), address))
}

function empty(tx: Tx, key: number, { mark }: Erasing): void {
  tx.run(
    raw(
      `update inbound_messages set mail_from = ?, recipients = '[]', helo = '', received = '', content = x'', spool = null,
         authentication = null where key = ?`,
      [mark, key],
    ),
  )
  tx.run(
    raw(
      `update inbound_bodies set headers = '{}', text = null, html = null, attachments = '[]', text_part = null, html_part = null,
         authentication = null where message_key = ?`,
      [key],
    ),
  )
}

/** Makes an empty message, which replaces a message that another account has too. */
function emptied(tx: Tx, key: number, { at, mark }: Erasing): number {
  const made = tx.run(
    raw(
      `insert into inbound_messages (id, mail_from, recipients, client, helo, received, size, content, spool, cut, virus, authentication,
         received_at, attempts, next_attempt_at)
       select ?, ?, '[]', client, '', '', size, x'', null, cut, virus, null, received_at, 0, null from inbound_messages where key = ?`,
      [newId(at), mark, key],
    ),
  )
  tx.run(
    raw(
      `insert into inbound_bodies (message_key, headers, text, html, attachments)
       select ?, '{}', null, null, '[]' from inbound_bodies where message_key = ?`,
      [made.key, key],
    ),
  )
  return made.key
}

function forgetEmails(tx: Tx, from: number, to: number, erasing: Erasing): void {
  const rows = tx.all(
    raw<{ key: number; reason: string | null; authentication: string }>(
      'select key, reason, authentication from inbound_emails where message_key = ? and user_key = ?',
      [from, erasing.userKey],
    ),
  )
  for (const { authentication, key, reason } of rows)
    tx.run(
      raw(
        `update inbound_emails set message_key = ?, sender = ?, recipients = '[]', subject = null, "from" = null, "to" = '[]', cc = '[]',
           reply_to = '[]', message_id = null, in_reply_to = null, "references" = '[]', reason = ?, authentication = ? where key = ?`,
        [
          to,
          erasing.mark,
          reason === null ? 'Erased on request.' : redact(reason, erasing),
          redact(authentication, erasing),
          key,
        ],
      ),
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
