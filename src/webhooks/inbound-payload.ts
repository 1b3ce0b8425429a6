// What a webhook is told of a received mail (D50): envelope, the header in short, verdicts, what is attached, and the beginning of the
// text. The whole is fetched through the API.
import { iso } from '../base/clock.ts'
import type { Reader } from '../store/database.ts'
import { db, statement } from '../store/query.ts'

const MAX_TEXT = 8 * 1024
const MAX_LINE = 500
const MAX_LIST = 20

const inboundOf = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('inbound_emails as e')
    .innerJoin('inboxes as i', 'i.key', 'e.inbox_key')
    .innerJoin('domains as d', 'd.key', 'e.domain_key')
    .leftJoin('inbound_bodies as b', 'b.message_key', 'e.message_key')
    .selectAll('e')
    .select(['i.id as inbox_id', 'd.id as domain_id', 'b.text', 'b.attachments'])
    .where('e.key', '=', arg.key),
)

const line = (text: string | null): string | null => text && text.slice(0, MAX_LINE).toWellFormed()
const list = (json: string): string[] => (JSON.parse(json) as string[]).slice(0, MAX_LIST).map((text) => line(text)!)

/** The data of inbound_email.received; null when the mail is no longer kept. */
export function inboundData(reader: Reader, key: number): Record<string, unknown> | null {
  const email = reader.first(inboundOf({ key }))
  if (!email) return null
  const text = cut(email.text ?? '')
  const attachments = JSON.parse(email.attachments ?? '[]') as Record<string, unknown>[]
  return {
    inbound_email_id: email.id,
    inbox_id: email.inbox_id,
    domain_id: email.domain_id,
    status: email.status,
    envelope: { from: line(email.sender), to: list(email.recipients) },
    subject: line(email.subject),
    from: line(email.from),
    to: list(email.to),
    cc: list(email.cc),
    reply_to: list(email.reply_to),
    message_id: line(email.message_id),
    in_reply_to: line(email.in_reply_to),
    references: list(email.references),
    authentication: JSON.parse(email.authentication) as unknown,
    attachments: attachments.slice(0, MAX_LIST).map(({ id, filename, content_type, size }) => ({
      id,
      filename: line(filename as string | null),
      content_type,
      size,
    })),
    size: email.size,
    received_at: iso(email.received_at),
    text,
    truncated: text !== (email.text ?? ''),
  }
}

/** The first 8 KB, cut between characters. */
function cut(text: string): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= MAX_TEXT) return text
  return bytes
    .subarray(0, MAX_TEXT)
    .toString()
    .replace(/\ufffd$/, '')
}
