// Emails and domains as Resend's clients expect them.
import type { ResourceObject } from './kit.ts'

type Attributes = ResourceObject['attributes']

interface ShownRecipient {
  role: string
  attempts: number
}

const list = (value: unknown): unknown[] => (value === null || value === undefined ? [] : [value].flat())

/** The last event of an email, in the words of Resend. */
function lastEvent({ first_clicked_at, first_opened_at, recipients, status }: Attributes): string {
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

export const emailOf = ({ attributes, id }: ResourceObject): object => ({
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

interface KindOfRecord {
  record: string
  type: string
  priority?: number
}

const RECORDS: Readonly<Record<string, KindOfRecord>> = {
  DKIM: { record: 'DKIM', type: 'TXT' },
  SPF: { record: 'SPF', type: 'TXT' },
  MAIL_FROM_MX: { record: 'SPF', type: 'MX', priority: 10 },
  DMARC: { record: 'DMARC', type: 'TXT' },
  INBOUND_MX: { record: 'Receiving', type: 'MX', priority: 10 },
  TRACKING: { record: 'Tracking', type: 'CNAME' },
}

/** A domain, with its records if they are given. */
export const domainOf = ({ attributes, id }: ResourceObject, records?: readonly ResourceObject[]) => ({
  object: 'domain',
  id,
  name: attributes['name'],
  status: DOMAIN_STATUSES[String(attributes['status'])] ?? 'failed',
  created_at: attributes['created_at'],
  region: attributes['region'],
  capabilities: { sending: 'enabled', receiving: 'enabled' },
  open_tracking: attributes['open_tracking_enabled'],
  click_tracking: attributes['click_tracking_enabled'],
  ...(records && { records: records.flatMap(recordOf) }),
})

function recordOf({ attributes }: ResourceObject): object[] {
  const kind = RECORDS[String(attributes['record_type'])]
  if (!kind) return []
  const { name, ttl, value, verified } = attributes
  // Resend shows the priority of an MX record as a member of its own.
  const [, priority, host] = (kind.type === 'MX' && /^(\d+) (\S+)$/.exec(String(value))) || []
  return [
    {
      ...kind,
      name,
      value: host ?? value,
      ttl: String(ttl),
      status: verified === true ? 'verified' : 'pending',
      ...(priority !== undefined && { priority: Number(priority) }),
    },
  ]
}
