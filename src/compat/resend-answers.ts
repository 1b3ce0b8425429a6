// Emails and domains as Resend's clients expect them.
import type { CompatAttributes, CompatResource } from './kit.ts'
import { mxValue, RECORD_TYPES } from './records.ts'

interface ShownRecipient {
  role: string
  attempts: number
}

const list = (value: unknown): unknown[] => (value === null || value === undefined ? [] : [value].flat())

/** The last event of an email, in the words of Resend. */
function lastEvent({ first_clicked_at, first_opened_at, recipients, status }: CompatAttributes): string {
  const attempts = (recipients as ShownRecipient[]).find(({ role }) => role === 'to')?.attempts ?? 0
  switch (status) {
    case 'queued':
      return attempts > 0 ? 'delivery_delayed' : 'queued'
    case 'delivered':
      return first_clicked_at ? 'clicked' : first_opened_at ? 'opened' : 'delivered'
    case 'cancelled':
      return 'canceled'
    case 'rejected':
      return 'failed'
    default:
      return String(status)
  }
}

export const emailOf = ({ attributes, id }: CompatResource): object => ({
  object: 'email',
  id,
  to: list(attributes['to']),
  from: attributes['from'],
  created_at: attributes['created_at'],
  subject: attributes['subject'],
  html: attributes['html'],
  text: attributes['text'],
  cc: list(attributes['cc']),
  bcc: list(attributes['bcc']),
  reply_to: list(attributes['reply_to']),
  last_event: lastEvent(attributes),
  scheduled_at: attributes['scheduled_at'],
  message_id: attributes['message_id'],
  tags: Object.entries((attributes['metadata'] ?? {}) as Record<string, string>).map(([name, value]) => ({
    name,
    value,
  })),
})

const DOMAIN_STATUSES: Readonly<Record<string, string>> = {
  pending: 'not_started',
  verifying: 'pending',
  active: 'verified',
}

/** The words of Resend for the purposes of records. */
const RECORDS: Readonly<Record<string, string>> = {
  DKIM: 'DKIM',
  SPF: 'SPF',
  MAIL_FROM_MX: 'SPF',
  DMARC: 'DMARC',
  INBOUND_MX: 'Receiving',
  TRACKING: 'Tracking',
}

/** A domain, with its records if they are given. */
export const domainOf = ({ attributes, id }: CompatResource, records?: readonly CompatResource[]) => ({
  object: 'domain',
  id,
  name: attributes['name'],
  status: DOMAIN_STATUSES[String(attributes['status'])] ?? 'failed',
  created_at: attributes['created_at'],
  region: attributes['region'],
  capabilities: { sending: 'enabled', receiving: 'enabled' },
  open_tracking: attributes['open_tracking_enabled'],
  click_tracking: attributes['click_tracking_enabled'],
  ...(records && { records: records.map(recordOf) }),
})

function recordOf({ attributes }: CompatResource): object {
  const { name, record_type, ttl, value, verified } = attributes
  const type = RECORD_TYPES[String(record_type)] ?? 'TXT'
  // Resend shows the priority of an MX record as a member of its own.
  const mx = type === 'MX' ? mxValue(value) : undefined
  return {
    record: RECORDS[String(record_type)] ?? String(record_type),
    type,
    name,
    value: mx?.host ?? value,
    ttl: String(ttl),
    status: verified === true ? 'verified' : 'pending',
    ...(mx && { priority: mx.priority }),
  }
}
