// The payload for a received mail (D50): envelope, main header fields, authentication results, list of attachments, and
// the beginning of the text. The whole mail is available through the API.
import { iso } from '../base/clock.ts'
import { must } from '../base/errors.ts'
import { textsOf } from '../base/json.ts'
import type { Reader } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { InboundAttachment } from '../message/parse.ts'
import { storedText } from '../message/part-text.ts'

const MAX_TEXT = 8 * 1024
/** The most octets of JSON: without the text, and with it (a payload is under 20 KB). */
const MAX_SUMMARY = 11_000
const MAX_DATA = 19_800
/**
 * The most characters of a line and members of a list, tried in turn;
 * the last pair fits MAX_SUMMARY with any characters.
 */
const CUTS = [
  [500, 20],
  [200, 20],
  [120, 10],
  [50, 5],
] as const

const inboundOf = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('inbound_emails as e')
    .innerJoin('inboxes as i', 'i.key', 'e.inbox_key')
    .innerJoin('domains as d', 'd.key', 'e.domain_key')
    .leftJoin('inbound_bodies as b', 'b.message_key', 'e.message_key')
    .leftJoin('inbound_messages as m', (join) =>
      join.onRef('m.key', '=', 'b.message_key').on('b.text_part', 'is not', null),
    )
    .selectAll('e')
    .select(['i.id as inbox_id', 'd.id as domain_id', 'b.text', 'b.text_part', 'b.attachments', 'm.content'])
    .where('e.key', '=', arg.key),
)

const firstInbound = (reader: Reader, key: number) => reader.first(inboundOf({ key }))

/** The data of inbound_email.received; null when the mail is no longer kept. */
export function inboundData(reader: Reader, key: number): Record<string, unknown> | null {
  const email = firstInbound(reader, key)
  if (!email) return null
  const summaries = CUTS.map(
    ([line, members]) =>
      () =>
        summaryOf(email, line, members),
  )
  let summary = summaries[0]!()
  for (const shorter of summaries.slice(1)) if (sizeOf(summary) > MAX_SUMMARY) summary = shorter()
  const whole = storedText(email.text, email.text_part, () => must(email.content, 'The content of a message')) ?? ''
  const text = cut(whole, MAX_DATA - sizeOf(summary))
  return { ...summary, text, truncated: text !== whole }
}

const sizeOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))

function summaryOf(email: NonNullable<ReturnType<typeof firstInbound>>, max: number, members: number) {
  const cutLine = (text: string): string => text.slice(0, max).toWellFormed()
  const line = (text: string | null): string | null => text && cutLine(text)
  const list = (json: string): string[] => textsOf(json).slice(0, members).map(cutLine)
  const attachments = JSON.parse(email.attachments ?? '[]') as InboundAttachment[]
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
    attachments: attachments.slice(0, members).map(({ id, filename, content_type, size }) => ({
      id,
      filename: line(filename),
      content_type: line(content_type),
      size,
    })),
    size: email.size,
    received_at: iso(email.received_at),
  }
}

/** The first 8 KB of a text that also fit as JSON, cut between characters. */
function cut(text: string, room: number): string {
  let octets = 0
  let written = 0
  let end = 0
  for (const character of text.slice(0, MAX_TEXT)) {
    octets += Buffer.byteLength(character)
    written += Buffer.byteLength(JSON.stringify(character)) - 2
    if (octets > MAX_TEXT || written > room) break
    end += character.length
  }
  return text.slice(0, end)
}
