// Erases an address from payloads sent to endpoints and from their responses. Text that a payload quotes from an email
// is removed if the email was erased.
import { jsonOf } from '../base/json.ts'
import type { EventType } from '../store/states/events.ts'
import { holds, names, needleOf, redact, redactMailboxes, sliceEnd } from '../store/erasing.ts'
import type { Erasing, ErasingStep } from '../store/erasing.ts'
import { raw } from '../store/query.ts'

interface Pushed {
  key: number
  event: EventType
  payload: string
  response_body: string | null
  reason: string | null
  /** The mail that the payload is about was erased. */
  erased: 0 | 1
}

const RECEIVED: EventType = 'inbound_email.received'
const TOLD = ['payload', 'response_body', 'reason'] as const
const ERASED = `(w.event like 'email.%' and exists (select 1 from outbound_emails e
    where e.key = cast(substr(w.about, 6) as integer) and e.campaign_key is null and e.subject = ''))
  or (w.event = '${RECEIVED}' and exists (select 1 from inbound_emails i
    where i.id = json_extract(w.payload, '$.data.inbound_email_id') and i.sender = ?))`

/** Must run after emails were erased. */
export const forgetInPushed: ErasingStep = (tx, erasing, after) => {
  const { address, mark, userKey } = erasing
  const end = sliceEnd(tx, { table: 'outbound_webhooks', userKey, after })
  if (end === null) return null
  const needle = needleOf(address)
  const found = tx.all(
    raw<Pushed>(
      `select * from (select w.key, w.event, w.payload, w.response_body, w.reason, (${ERASED}) as erased
         from outbound_webhooks w where w.user_key = ? and w.key > ? and w.key <= ?)
       where erased or ${TOLD.map(holds).join(' or ')}`,
      [mark, userKey, after, end, ...TOLD.map(() => needle)],
    ),
  )
  for (const { erased, event, key, payload, reason, response_body } of found) {
    const named = names(payload, address)
    tx.run(
      raw('update outbound_webhooks set payload = ?, response_body = ?, reason = ? where key = ?', [
        erased || named ? wordless(payload, event, erasing) : payload,
        response_body && redact(response_body, erasing),
        reason && redact(reason, erasing),
        key,
      ]),
    )
  }
  return end
}

/** A payload of the same shape, with the event's facts but without text from the mail. */
function wordless(payload: string, event: EventType, erasing: Erasing): string {
  const parsed = jsonOf(payload) as { data?: Record<string, unknown> } | undefined
  // A payload for listmonk has no text from the mail.
  if (parsed?.data === undefined) return redact(payload, erasing)
  const { data } = parsed
  if (event === RECEIVED)
    Object.assign(data, {
      envelope: { from: erasing.mark, to: [] },
      subject: null,
      from: null,
      to: [],
      cc: [],
      reply_to: [],
      message_id: null,
      in_reply_to: null,
      references: [],
      attachments: [],
      text: '',
    })
  else {
    if (typeof data['subject'] === 'string' && typeof data['campaign_id'] !== 'string') data['subject'] = ''
    if (typeof data['from'] === 'string') data['from'] = redactMailboxes(data['from'], erasing)
  }
  return redact(JSON.stringify(parsed), erasing)
}
