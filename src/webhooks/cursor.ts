// The position up to which the event log was read for webhooks. Without an endpoint the log is not read. The first
// endpoint starts at the end of the log, because it gets no earlier events.
import type { Reader, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'

const READER = 'webhooks'

const endpoint = raw('select 1 from webhooks where deleted_at is null limit 1')

export const anyEndpoint = (reader: Reader): boolean => reader.fact(endpoint) !== undefined

export function placeInLog(reader: Reader): number {
  return reader.first(db.selectFrom('event_cursors').select('event_key').where('reader', '=', READER))?.event_key ?? 0
}

/** The key of the last event that needs no more reading. */
export const readUpTo = (reader: Reader): number => (anyEndpoint(reader) ? placeInLog(reader) : Number.MAX_SAFE_INTEGER)

export function movePlace(tx: Tx, eventKey: number): void {
  tx.run(db.replaceInto('event_cursors').values({ reader: READER, event_key: eventKey }))
}

/** Called before an endpoint is created: the first one starts at the end of the log. */
export function beginHere(tx: Tx): void {
  if (anyEndpoint(tx)) return
  const last = tx.first(raw<{ key: number | null }>('select max(key) as key from events'))
  movePlace(tx, last?.key ?? 0)
}
