// Audiences (D40): lists of contacts, each for one sending domain. A removed audience disappears at once. Its contacts
// are deleted later in small batches, so that a list of a million does not block other work.
import type { Clock } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Reader, Store } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'

export type Audience = RowOf<'audiences'>

export interface AudienceDeps {
  store: Store
  clock: Clock
}

interface AudienceText {
  name: string
  description?: string | null | undefined
  title?: string | null | undefined
  language?: string | null | undefined
}

/** Creates an audience for one of the user's sending domains. */
export function addAudience(
  { clock, store }: AudienceDeps,
  domain: { key: number; user_key: number },
  { name, description = null, language = null, title = null }: AudienceText,
): Promise<Audience> {
  const now = clock.now()
  const row = {
    id: newId(now),
    user_key: domain.user_key,
    domain_key: domain.key,
    name,
    description,
    title,
    contacts_count: 0,
    subscribed_count: 0,
    unsubscribed_count: 0,
    bounced_count: 0,
    complained_count: 0,
    pending_count: 0,
    language,
    created_at: now,
    updated_at: now,
  }
  return store.write((tx) => tx.one(db.insertInto('audiences').values(row).returningAll()))
}

export function changeAudience(
  { clock, store }: AudienceDeps,
  key: number,
  change: Partial<AudienceText>,
): Promise<Audience> {
  const given = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined))
  const set = { ...given, updated_at: clock.now() }
  return store.write((tx) => tx.one(db.updateTable('audiences').set(set).where('key', '=', key).returningAll()))
}

/** The signal of a commit that removes an audience. */
export const AUDIENCE_REMOVED = 'audience removed'

export function removeAudience({ clock, store }: AudienceDeps, key: number): Promise<void> {
  const now = clock.now()
  return store.write((tx) => {
    tx.run(db.updateTable('audiences').set({ deleted_at: now, updated_at: now }).where('key', '=', key))
    tx.run(db.deleteFrom('list_imports').where('audience_key', '=', key))
    tx.run(db.deleteFrom('audience_days').where('audience_key', '=', key))
    tx.signal(AUDIENCE_REMOVED)
  })
}

/** The number of contacts per status. Triggers update the numbers, so that counting needs no scan. */
export type AudienceCounts = Pick<
  Audience,
  'subscribed_count' | 'unsubscribed_count' | 'bounced_count' | 'complained_count' | 'pending_count'
>

export function countsOf(reader: Reader, audienceKey: number): AudienceCounts {
  return reader.one(
    db
      .selectFrom('audiences')
      .select(['subscribed_count', 'unsubscribed_count', 'bounced_count', 'complained_count', 'pending_count'])
      .where('key', '=', audienceKey),
  )
}

/**
 * The number of subscribed contacts at the end of each of these days (UTC, days since the epoch), including the last.
 */
export function growthOf(
  reader: Reader,
  { key, subscribed_count }: Pick<Audience, 'key' | 'subscribed_count'>,
  { days, last }: { days: number; last: number },
): { day: number; subscribed: number }[] {
  const changes = reader.all(
    raw<{ day: number; subscribed: number }>(
      `select day, subscribed from audience_days where audience_key = ? and day > ?
       union all select * from (select day, subscribed from audience_days
         where audience_key = ? and day <= ? order by day desc limit 1)
       order by day`,
      [key, last - days, key, last - days],
    ),
  )
  const first = changes[0]?.day ?? last
  const by = new Map(changes.map(({ day, subscribed }) => [day, subscribed]))
  const points: { day: number; subscribed: number }[] = []
  let subscribed = changes[0]?.subscribed ?? 0
  for (let day = Math.max(first, last - days + 1); day < last; day++) {
    subscribed = by.get(day) ?? subscribed
    points.push({ day, subscribed })
  }
  // Deleting contacts changes the number without adding a point, so today's number is appended.
  return [...points, { day: last, subscribed: subscribed_count }]
}

/** An audience that is not removed, by its public id. */
export function audienceById(reader: Reader, id: string): Audience | undefined {
  return reader.first(db.selectFrom('audiences').selectAll().where('id', '=', id).where('deleted_at', 'is', null))
}

const AT_ONCE = 500

/** An audience that is removed and still has contacts. */
const REMOVED = 'a.deleted_at > 0 and a.deleted_at <= ? and a.contacts_count > 0'

/** Deletes some contacts of removed audiences. Returns how many, or 0 when all are deleted. */
export async function sweepContacts(store: Store, now: number): Promise<number> {
  // This query runs with each commit of results during a campaign, so it avoids an unnecessary write.
  if (!store.first(raw(`select 1 from audiences a where ${REMOVED} limit 1`, [now]))) return 0
  return store.write((tx) => {
    const some = `select c.key from audiences a join contacts c on c.audience_key = a.key where ${REMOVED}
      order by c.key limit ?`
    const ended = 'update consents set ended_at = ?, updated_at = ? where ended_at is null'
    tx.run(raw(`${ended} and contact_key in (${some})`, [now, now, now, AT_ONCE]))
    return tx.run(raw(`delete from contacts where key in (${some})`, [now, AT_ONCE])).changes
  })
}
