// Bounces and complaints in the form that the bounce endpoint of listmonk accepts (POST /webhooks/bounce).
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { dataOf } from './payload.ts'

type EventRow = RowOf<'events'>

/** The part of a message in which the header of listmonk is searched. */
const SEARCHED = 16 * 1024
const CAMPAIGN = /^X-Listmonk-Campaign:[ \t]*([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[ \t]*\r?$/im

/** The body of the request about an event, or null for events that listmonk does not accept. */
export function listmonkPayload(reader: Reader, event: EventRow): string | null {
  if (event.type !== 'email.bounced' && event.type !== 'email.complained') return null
  const data = dataOf(reader, event)
  return data && listmonkBody(event.type, data, campaignOf(reader, event))
}

/** The body of a request, or null without a recipient. */
export function listmonkBody(
  type: 'email.bounced' | 'email.complained',
  { bounce, complaint, email_id, message_id, recipient }: Record<string, unknown>,
  campaign_uuid?: string,
): string | null {
  if (typeof recipient !== 'string') return null
  const isHard = (bounce as { class?: unknown } | undefined)?.class === 'hard'
  return JSON.stringify({
    email: recipient,
    ...(campaign_uuid !== undefined && { campaign_uuid }),
    source: 'postrider',
    type: type === 'email.complained' ? 'complaint' : isHard ? 'hard' : 'soft',
    // A string of JSON, as listmonk documents it.
    meta: JSON.stringify({ email_id, message_id, ...(bounce ? { bounce } : { complaint }) }),
  })
}

/**
 * The campaign of listmonk that an email belongs to. It is in a header that listmonk adds to emails that it submits by
 * SMTP. Large messages, which are files, are not searched.
 */
function campaignOf(reader: Reader, { email_key }: EventRow): string | undefined {
  const row = reader.first(
    raw<{ head: string | null }>(
      `select substr(content ->> '$.raw.text', 1, ${SEARCHED}) as head from outbound_bodies where email_key = ?`,
      [email_key],
    ),
  )
  const [header = ''] = row?.head?.split('\r\n\r\n', 1) ?? []
  return CAMPAIGN.exec(header)?.[1]?.toLowerCase()
}
