// The body of a webhook request: {type, timestamp, data}, built once from the event and the store, and never changed
// afterwards (specification "Delivery format", D50). Null when the object of the event was deleted.
import { iso } from '../base/clock.ts'
import { identityOf, taggedOf } from '../message/identity.ts'
import type { Reader } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { must } from '../base/errors.ts'
import { textsOf } from '../base/json.ts'
import type { InboundAttachment } from '../message/parse.ts'
import { storedText } from '../message/part-text.ts'

type EventRow = RowOf<'events'>
type Data = Record<string, unknown>

/** The longest text in a payload, so that a payload stays under 20 KB. */
const MAX_TEXT = 4000

const emailOf = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('outbound_emails as e')
    .innerJoin('domains as d', 'd.key', 'e.domain_key')
    .leftJoin('campaigns as c', 'c.key', 'e.campaign_key')
    .leftJoin('contacts as p', 'p.key', 'e.contact_key')
    .leftJoin('outbound_batches as b', 'b.key', 'e.batch_key')
    .select([
      'e.id as email_id',
      'e.message_id',
      'd.id as domain_id',
      'e.from',
      'e.subject',
      'e.agent_id',
      'e.tags',
      'e.metadata',
    ])
    .select([
      'b.id as batch_id',
      'c.id as campaign_id',
      'p.id as contact_id',
      'd.name',
      'c.from_address',
      'c.subject as campaign_subject',
    ])
    .select(['e.to', 'c.test_mode', 'p.email as contact_email', 'p.name as contact_name', 'p.custom_fields'])
    .where('e.key', '=', arg.key),
)

const deliveryOf = statement<{ key: number }>()((arg) =>
  db.selectFrom('deliveries').select(['address', 'role']).where('key', '=', arg.key),
)

const domainOf = statement<{ key: number }>()((arg) =>
  db.selectFrom('domains').select(['id', 'name', 'status']).where('key', '=', arg.key),
)

export function payloadOf(reader: Reader, event: EventRow): string | null {
  const data = dataOf(reader, event)
  return data && JSON.stringify({ type: event.type, timestamp: iso(event.created_at), data })
}

/** The data of an event, or null when its object was deleted. */
export function dataOf(reader: Reader, event: EventRow): Data | null {
  const details = JSON.parse(event.data) as Data
  if (event.type === 'inbound_email.received') return inboundData(reader, details['inbound'] as number)
  if (event.email_key !== null) return emailData(reader, event, event.email_key, details)
  if (event.campaign_key !== null) return campaignData(reader, event.campaign_key, details)
  return event.domain_key === null ? details : domainData(reader, event.domain_key, details)
}

function emailData(reader: Reader, event: EventRow, key: number, details: Data): Data | null {
  const row = reader.first(emailOf({ key }))
  if (!row) return null
  const { campaign_subject, from_address, name, contact_email, contact_name, custom_fields, test_mode, to, ...email } =
    row
  const campaign = email.campaign_id === null ? undefined : { from_address, subject: campaign_subject! }
  const contact = taggedOf({ email: contact_email, name: contact_name, custom_fields }, { test_mode, to })
  const identity = identityOf({ ...email, id: email.email_id }, campaign, name, contact)
  const delivery = reader.first(deliveryOf({ key: details['delivery'] as number }))
  return {
    ...email,
    ...identity,
    subject: textOf(identity.subject),
    tags: JSON.parse(email.tags ?? '[]') as string[],
    metadata: JSON.parse(email.metadata ?? '{}') as Data,
    recipient: delivery?.address ?? null,
    recipient_role: delivery?.role ?? null,
    ...aspect(event, details),
  }
}

/** Cuts between characters: not all JSON parsers accept half a surrogate pair. */
const textOf = (value: unknown): string =>
  typeof value === 'string' ? value.slice(0, MAX_TEXT).replace(/[\uD800-\uDBFF]$/, '') : ''

/** The data attributes that only one event type has. */
const ASPECTS: Partial<Record<EventRow['type'], (details: Data, reply: Data) => Data>> = {
  'email.delivered': (_, reply) => ({ delivery: reply }),
  'email.bounced': ({ kind = null, class: of = null }, reply) => ({ bounce: { kind, class: of, ...reply } }),
  'email.delayed': ({ attempts, next_attempt_at }, reply) => ({
    delay: { attempts, next_attempt_at: iso(next_attempt_at as number), ...reply },
  }),
  'email.complained': ({ feedback_type = null }) => ({ complaint: { feedback_type } }),
  'email.opened': ({ machine }) => ({ open: { machine: machine === true } }),
  'email.clicked': ({ machine, url }) => ({ click: { machine: machine === true, url: textOf(url) } }),
  'email.rejected': ({ kind = null, response = null, suppression = null }) => ({
    rejection: { kind, reason: response, suppression_reason: suppression },
  }),
}

function aspect({ type }: EventRow, details: Data): Data {
  const { smtp_code = null, enhanced_code = null, response = null, remote_mta = null } = details
  return ASPECTS[type]?.(details, { smtp_code, enhanced_code, response, remote_mta }) ?? {}
}

const campaignOf = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('campaigns as c')
    .innerJoin('audiences as a', 'a.key', 'c.audience_key')
    .innerJoin('domains as d', 'd.key', 'c.domain_key')
    .select(['c.id as campaign_id', 'c.name', 'a.id as audience_id', 'd.id as domain_id', 'c.recipients'])
    .where('c.key', '=', arg.key),
)

function campaignData(reader: Reader, key: number, { failure, previous_status, reason, status }: Data): Data | null {
  const campaign = reader.first(campaignOf({ key }))
  const why = { ...(failure === undefined ? {} : { failure }), ...(reason === undefined ? {} : { reason }) }
  return campaign ? { ...campaign, status, previous_status, ...why } : null
}

function domainData(reader: Reader, key: number, details: Data): Data | null {
  const domain = reader.first(domainOf({ key }))
  if (!domain) return null
  const { previous_status = null, status = domain.status, ...figures } = details
  return { domain_id: domain.id, name: domain.name, status, previous_status, ...figures }
}

// The payload for a received mail (D50): envelope, main header fields, authentication results, list of attachments, and
// the beginning of the text. The whole mail is available through the API.

const MAX_BODY_TEXT = 8 * 1024
/** The maximum size of the JSON in bytes, without and with the text (a payload is under 20 KB). */
const MAX_SUMMARY = 11_000
const MAX_DATA = 19_800
/**
 * Limits for the characters of a line and the members of a list, tried in order. The last pair fits MAX_SUMMARY with
 * any characters.
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

/** The data of inbound_email.received, or null if the message is no longer kept. */
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
  let bytes = 0
  let written = 0
  let end = 0
  for (const character of text.slice(0, MAX_BODY_TEXT)) {
    bytes += Buffer.byteLength(character)
    written += Buffer.byteLength(JSON.stringify(character)) - 2
    if (bytes > MAX_BODY_TEXT || written > room) break
    end += character.length
  }
  return text.slice(0, end)
}
