// Makes deliveries from the event log: one row for each event and each endpoint that subscribes to it, in the order of
// the log. The position in the log moves in the same transaction, so that a crash neither loses nor repeats an event.
import type { Clock } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import type { EventType } from '../store/states/events.ts'
import type { Store, Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { anyEndpoint, movePlace, placeInLog } from './cursor.ts'
import type { Webhook } from './endpoints.ts'
import { aboutMail } from './about-mail.ts'
import { listmonkPayload } from './listmonk.ts'
import { payloadOf } from './payload.ts'

const BATCH = 200

const insert = statement<
  Pick<
    RowOf<'outbound_webhooks'>,
    'id' | 'user_key' | 'webhook_key' | 'event' | 'about' | 'payload' | 'status' | 'next_attempt_at' | 'created_at'
  >
>()((arg) =>
  db.insertInto('outbound_webhooks').values({
    id: arg.id,
    user_key: arg.user_key,
    webhook_key: arg.webhook_key,
    event: arg.event,
    about: arg.about,
    payload: arg.payload,
    status: arg.status,
    attempts: 0,
    next_attempt_at: arg.next_attempt_at,
    created_at: arg.created_at,
    updated_at: arg.created_at,
  }),
)

export interface FanOutDeps {
  store: Store
  clock: Clock
  log: Log
}

/** Reads the event log to its end. Returns how many events were read. */
export async function fanOut({ store, clock, log }: FanOutDeps): Promise<number> {
  let total = 0
  for (;;) {
    if (!anyEndpoint(store)) return total
    const read = await store.write((tx) => step(tx, log, clock.now()))
    total += read
    if (read < BATCH) return total
  }
}

function step(tx: Tx, log: Log, now: number): number {
  const place = placeInLog(tx)
  const events = tx.all(db.selectFrom('events').selectAll().where('key', '>', place).orderBy('key').limit(BATCH))
  const last = events.at(-1)
  if (!last) return 0
  const users = [...new Set(events.map((event) => event.user_key))]
  const endpoints = tx.all(
    db.selectFrom('webhooks').selectAll().where('user_key', 'in', users).where('deleted_at', 'is', null),
  )
  for (const event of endpoints.length > 0 ? events : []) {
    const wanting = endpoints.filter((endpoint) => wants(endpoint, event))
    for (const [format, alike] of Map.groupBy(wanting, (endpoint) => endpoint.format)) {
      const payload = payloadFor(tx, log, event, format)
      for (const endpoint of payload === null ? [] : alike) {
        const open = endpoint.status === 'active'
        tx.run(
          insert({
            id: newId(now),
            user_key: event.user_key,
            webhook_key: endpoint.key,
            event: event.type,
            about: aboutOf(event),
            payload: payload!,
            // Events during a pause are held for a replay, and not sent automatically when the pause ends.
            status: open ? 'pending' : 'held',
            next_attempt_at: open ? now : null,
            created_at: now,
          }),
        )
      }
    }
  }
  movePlace(tx, last.key)
  return events.length
}

/** An event with corrupt data is not sent, and does not delay other events. */
function payloadFor(tx: Tx, log: Log, event: RowOf<'events'>, format: Webhook['format']): string | null {
  try {
    return format === 'listmonk' ? listmonkPayload(tx, event) : payloadOf(tx, event)
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError)) throw thrown
    log.error('event_corrupt', { id: event.id, type: event.type, error: thrown.message })
    return null
  }
}

/** The key for events whose order matters: events of one mail may follow each other within milliseconds. */
const aboutOf = ({ email_key }: RowOf<'events'>): string => (email_key === null ? '' : aboutMail(email_key))

/** Events of a domain go to its endpoints. Events of the account go to all endpoints of the user (D51). */
function wants({ created_at, domain_key, events, user_key }: Webhook, event: RowOf<'events'>): boolean {
  if (user_key !== event.user_key || event.created_at < created_at) return false
  if (event.domain_key !== null && event.domain_key !== domain_key) return false
  const types = JSON.parse(events) as (EventType | '*')[]
  return types.includes('*') || types.includes(event.type)
}
