// Idempotency keys (D30): a repeat with the same payload returns the first email, one with another payload is refused.
import { createHash } from 'node:crypto'
import { refuse } from '../../base/errors.ts'
import type { Reader } from '../../store/database.ts'
import { db, statement } from '../../store/query.ts'
import type { OneOrMore } from './recipients.ts'
import type { Email, NewEmail } from './email.ts'

const byIdempotencyKey = statement<{ user_key: number; idempotency_key: string }>()((arg) =>
  db
    .selectFrom('outbound_emails')
    .selectAll()
    .where('user_key', '=', arg.user_key)
    .where('idempotency_key', '=', arg.idempotency_key),
)

export const emailByKey = (reader: Reader, userKey: number, key: string): Email | undefined =>
  reader.first(byIdempotencyKey({ user_key: userKey, idempotency_key: key }))

/** The email made earlier under this key. Throws 409 when its payload was another. */
export function acceptedBefore(reader: Reader, userKey: number, key: string, hash: Buffer): Email | undefined {
  const email = emailByKey(reader, userKey, key)
  // A mail that was erased has no hash to compare with.
  if (email && !(email.payload_hash && hash.equals(email.payload_hash)))
    throw refuse(
      'idempotency_conflict',
      'This idempotency_key was used with a different payload; use a new key for a new email.',
      {
        pointer: '/data/attributes/idempotency_key',
      },
    )
  return email
}

/**
 * A hash of the payload by meaning:
 * the order of members does not count, absent equals null, one value equals a list of one.
 */
export function payloadHash(given: NewEmail): Buffer {
  const list = (value: OneOrMore): readonly string[] => (typeof value === 'string' ? [value] : (value ?? []))
  const {
    from,
    to,
    subject,
    html,
    text,
    agent_id,
    track_opens,
    track_clicks,
    ai_disclosure,
    attachments = [],
    headers = [],
  } = given
  const hash = createHash('sha256').update(
    JSON.stringify({
      from,
      to,
      subject,
      html,
      text: text ?? null,
      cc: list(given.cc),
      bcc: list(given.bcc),
      reply_to: list(given.reply_to),
      agent_id: agent_id ?? null,
      track_opens: track_opens ?? null,
      track_clicks: track_clicks ?? null,
      ai_disclosure: ai_disclosure ?? null,
      headers: headers.toSorted(([a], [b]) => (a < b ? -1 : 1)),
      attachments: attachments.map((attachment) => ({ ...attachment, content: undefined })),
    }),
  )
  for (const { content } of attachments) hash.update(`\n${content?.length ?? 0}\n`).update(content ?? '')
  return hash.digest()
}
