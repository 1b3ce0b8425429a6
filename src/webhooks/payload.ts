// The body of a webhook request: {type, timestamp, data}, built once from the event and the store, and never changed
// afterwards (specification "Delivery format", D50). Null when the object of the event was deleted.
import { iso } from '../base/clock.ts'
import { identityOf, taggedOf } from '../message/identity.ts'
import type { Reader } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../schema/tables.ts'
import { inboundData } from './inbound-payload.ts'

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
    .select(['e.id as email_id', 'e.message_id', 'd.id as domain_id', 'e.from', 'e.subject', 'e.agent_id'])
    .select(['c.id as campaign_id', 'p.id as contact_id', 'd.name', 'c.from_address', 'c.subject as campaign_subject'])
    .select(['e.to', 'c.test_mode', 'p.email as contact_email', 'p.name as contact_name', 'p.custom_fields'])
    .where('e.key', '=', arg.key),
)

const deliveryOf = statement<{ key: number }>()((arg) =>
  db.selectFrom('deliveries').select(['address', 'role']).where('key', '=', arg.key),
)

const domainOf = statement<{ key: number }>()((arg) =>
  db.selectFrom('domains').select(['id', 'name', 'status']).where('key', '=', arg.key),
)

/** The JSON text for an event. */
export function payloadOf(reader: Reader, event: EventRow): string | null {
  const told = JSON.parse(event.data) as Data
  const data =
    event.type === 'inbound_email.received'
      ? inboundData(reader, told['inbound'] as number)
      : event.email_key !== null
        ? emailData(reader, event, event.email_key, told)
        : event.campaign_key !== null
          ? campaignData(reader, event.campaign_key, told)
          : event.domain_key !== null
            ? domainData(reader, event.domain_key, told)
            : told
  return data && JSON.stringify({ type: event.type, timestamp: iso(event.created_at), data })
}

function emailData(reader: Reader, event: EventRow, key: number, told: Data): Data | null {
  const row = reader.first(emailOf({ key }))
  if (!row) return null
  const { campaign_subject, from_address, name, contact_email, contact_name, custom_fields, test_mode, to, ...email } =
    row
  const campaign = email.campaign_id === null ? undefined : { from_address, subject: campaign_subject! }
  const contact = taggedOf({ email: contact_email, name: contact_name, custom_fields }, { test_mode, to })
  const identity = identityOf({ ...email, id: email.email_id }, campaign, name, contact)
  const delivery = reader.first(deliveryOf({ key: told['delivery'] as number }))
  return {
    ...email,
    ...identity,
    subject: textOf(identity.subject),
    recipient: delivery?.address ?? null,
    recipient_role: delivery?.role ?? null,
    ...aspect(event, told),
  }
}

/** Cuts between characters: not all JSON parsers accept half a surrogate pair. */
const textOf = (value: unknown): string =>
  typeof value === 'string' ? value.slice(0, MAX_TEXT).replace(/[\uD800-\uDBFF]$/, '') : ''

/** The members of the data that only one event type has. */
const ASPECTS: Partial<Record<EventRow['type'], (told: Data, reply: Data) => Data>> = {
  'email.delivered': (_, reply) => ({ delivery: reply }),
  'email.bounced': ({ kind = null, class: of = null }, reply) => ({ bounce: { kind, class: of, ...reply } }),
  'email.delayed': ({ attempts, next_attempt_at }, reply) => ({
    delay: { attempts, next_attempt_at: iso(next_attempt_at as number), ...reply },
  }),
  'email.complained': ({ feedback_type = null }) => ({ complaint: { feedback_type } }),
  'email.opened': ({ machine }) => ({ open: { machine: machine === true } }),
  'email.clicked': ({ machine, url }) => ({ click: { machine: machine === true, url: textOf(url) } }),
  'email.rejected': ({ kind = null, response = null }) => ({ rejection: { kind, reason: response } }),
}

function aspect({ type }: EventRow, told: Data): Data {
  const { smtp_code = null, enhanced_code = null, response = null, remote_mta = null } = told
  return ASPECTS[type]?.(told, { smtp_code, enhanced_code, response, remote_mta }) ?? {}
}

const campaignOf = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('campaigns as c')
    .innerJoin('audiences as a', 'a.key', 'c.audience_key')
    .innerJoin('domains as d', 'd.key', 'c.domain_key')
    .select(['c.id as campaign_id', 'c.name', 'a.id as audience_id', 'd.id as domain_id', 'c.recipients'])
    .where('c.key', '=', arg.key),
)

function campaignData(reader: Reader, key: number, { failure, previous_status, status }: Data): Data | null {
  const campaign = reader.first(campaignOf({ key }))
  return campaign ? { ...campaign, status, previous_status, ...(failure === undefined ? {} : { failure }) } : null
}

function domainData(reader: Reader, key: number, told: Data): Data | null {
  const domain = reader.first(domainOf({ key }))
  if (!domain) return null
  const { previous_status = null, status = domain.status, ...figures } = told
  return { domain_id: domain.id, name: domain.name, status, previous_status, ...figures }
}
