// Segments: rules that select contacts of an audience. A campaign to a segment is sent to the contacts that match when
// it starts. Their keys are stored before its first email is queued, so that later changes of fields or opens do not
// matter (AU66).
import type { Clock } from '../base/clock.ts'
import { must, refuse, refuseAttribute } from '../base/errors.ts'
import { counted } from '../base/text.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import type { SqlCondition } from '../store/list.ts'
import { db, raw } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { Audience } from './audiences.ts'
import { campaignsIn, compileRules, type RuleCondition } from './rules.ts'
import { contactsIn, LATELY, type WalkOf } from './walk.ts'

export type StoredSegment = RowOf<'segments'>

interface SegmentDeps {
  store: Store
  clock: Clock
}

export interface SegmentText {
  name: string
  description?: string | null | undefined
  rules: RuleCondition[]
}

const MAX_SEGMENTS = 100

/** Creates a segment. Throws 404 for a campaign that is not to the audience, and 422 beyond the limit. */
export function addSegment(
  { clock, store }: SegmentDeps,
  audience: Audience,
  given: SegmentText,
): Promise<StoredSegment> {
  const now = clock.now()
  const { key: audience_key, user_key } = audience
  return store.write((tx) => {
    const { count } = tx.one(
      raw<{ count: number }>('select count(*) as count from segments where audience_key = ? and deleted_at is null', [
        audience_key,
      ]),
    )
    if (count >= MAX_SEGMENTS)
      throw refuse('limit_reached', `An audience can have at most ${MAX_SEGMENTS} segments. Delete one first.`, {
        pointer: '/data',
      })
    checkCampaigns(tx, audience_key, given.rules)
    const { description = null, name, rules } = given
    return tx.one(
      db
        .insertInto('segments')
        .values({
          id: newId(now),
          user_key,
          audience_key,
          name,
          description,
          rules: JSON.stringify(rules),
          created_at: now,
          updated_at: now,
        })
        .returningAll(),
    )
  })
}

export function changeSegment(
  { clock, store }: SegmentDeps,
  { audience_key, key }: StoredSegment,
  { rules, ...given }: Partial<SegmentText>,
): Promise<StoredSegment> {
  const plain = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  return store.write((tx) => {
    if (rules) checkCampaigns(tx, audience_key, rules)
    const set = { ...plain, ...(rules && { rules: JSON.stringify(rules) }), updated_at: clock.now() }
    return tx.one(db.updateTable('segments').set(set).where('key', '=', key).returningAll())
  })
}

/** Deletes a segment. Throws 409 if a draft or a scheduled campaign uses it. */
export function removeSegment({ clock, store }: SegmentDeps, { key }: StoredSegment): Promise<void> {
  return store.write((tx) => {
    const used = tx.all(
      db
        .selectFrom('campaigns')
        .select('name')
        .where('segment_key', '=', key)
        .where('deleted_at', 'is', null)
        .where('status', 'in', ['draft', 'scheduled'])
        .limit(100),
    )
    if (used.length > 0)
      throw refuse(
        'segment_in_use',
        `${counted(used.length, 'campaign')} that ${used.length === 1 ? 'is a draft or scheduled uses' : 'are drafts or scheduled use'} the segment, such as "${used[0]?.name}". Choose other recipients there first.`,
      )
    const now = clock.now()
    tx.run(db.updateTable('segments').set({ deleted_at: now, updated_at: now }).where('key', '=', key))
  })
}

/** Throws 404 if the rules name a campaign that is not to the audience. */
export function checkCampaigns(reader: Reader, audienceKey: number, rules: readonly RuleCondition[]): void {
  const known = campaignKeys(reader, audienceKey, rules)
  for (const { at, id } of campaignsIn(rules))
    if (!known.has(id))
      throw refuseAttribute(
        'not_found',
        `rules/${at}/campaign`,
        'No such campaign to this audience exists. Check the id in "campaign".',
      )
}

function campaignKeys(reader: Reader, audienceKey: number, rules: readonly RuleCondition[]): Map<string, number> {
  const ids = campaignsIn(rules).map(({ id }) => id)
  if (ids.length === 0) return new Map()
  const found = reader.all(
    raw<{ id: string; key: number }>(
      'select id, key from campaigns where id in (select value from json_each(?)) and audience_key = ?',
      [JSON.stringify(ids), audienceKey],
    ),
  )
  return new Map(found.map(({ id, key }) => [id, key]))
}

/** Rules as a condition about contacts of an audience, as of a time. */
export const conditionOf = (
  reader: Reader,
  audienceKey: number,
  rules: readonly RuleCondition[],
  now: number,
): SqlCondition =>
  compileRules(rules, { audience: audienceKey, campaigns: campaignKeys(reader, audienceKey, rules), now })

/** The condition of a segment as of a time. The segment may have been deleted after its campaign started. */
export function segmentCondition(reader: Reader, key: number, now: number): SqlCondition {
  const segment = reader.one(db.selectFrom('segments').selectAll().where('key', '=', key))
  return conditionOf(reader, segment.audience_key, JSON.parse(segment.rules) as RuleCondition[], now)
}

/** The keys that one transaction stores. */
const AT_ONCE = 2000

interface StartingCampaign extends WalkOf {
  key: number
  segment_key: number
}

/**
 * Stores the contacts that match the segment of a campaign that has started, and returns their number. After a crash it
 * continues with the contact after the last one that was stored.
 */
export async function fixMatches(
  { keyring, store }: { keyring: Keyring; store: Store },
  campaign: StartingCampaign,
): Promise<number> {
  const { key, segment_key, started_at } = campaign
  const fits = segmentCondition(store, segment_key, must(started_at, 'The start of a campaign'))
  let keys: number[] = []
  const flush = async (): Promise<boolean> => {
    const some = JSON.stringify(keys)
    keys = []
    return store.write((tx) => {
      const now = tx.first(db.selectFrom('campaigns').select('status').where('key', '=', key))
      if (now?.status !== 'sending') return false
      storeMatches(tx, campaign, some)
      return true
    })
  }
  const { from, stored } = store.one(
    raw<{ from: number; stored: number }>(
      'select coalesce(max(contact_key), 0) as "from", count(*) as stored from segment_matches where campaign_key = ?',
      [key],
    ),
  )
  let count = stored
  for await (const rows of contactsIn(store, keyring, campaign, { fits, from })) {
    const some = rows.filter(({ left_out }) => left_out === null)
    count += some.length
    keys.push(...some.map((row) => row.key))
    if (keys.length >= AT_ONCE && !(await flush())) return count
  }
  await flush()
  return count
}

function storeMatches(tx: Tx, { audience_key, key, started_at }: StartingCampaign, keys: string): void {
  tx.run(
    raw(
      `insert into segment_matches (campaign_key, first, contact_key)
       select ?, exists (select 1 from readers r where r.audience_key = ? and r.contact_key = value and r.seen_at >= ?), value
       from json_each(?)`,
      [key, audience_key, (started_at ?? 0) - LATELY, keys],
    ),
  )
}

/** Deletes the stored contacts of campaigns that have ended, some thousands at a time. */
export async function forgetMatches(store: Store): Promise<void> {
  const ended = store.all(
    raw<{ key: number }>(
      `select c.key from campaigns c
       where c.segment_key is not null and (c.status not in ('scheduled', 'sending', 'paused') or c.deleted_at is not null)
         and exists (select 1 from segment_matches m where m.campaign_key = c.key)`,
    ),
  )
  for (const { key } of ended) {
    const some = raw(
      `delete from segment_matches where (campaign_key, first, contact_key) in
         (select campaign_key, first, contact_key from segment_matches where campaign_key = ? limit ${AT_ONCE})`,
      [key],
    )
    while ((await store.writeSoon((tx) => tx.run(some).changes)) === AT_ONCE);
  }
}
