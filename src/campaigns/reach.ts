// Counts the recipients of a campaign, and the excluded contacts per reason, before it starts. It reads the contacts as
// the runner does (walk.ts), a few thousand at a time, so that a list of a million does not block other work. The
// result is cached until a contact or a suppression changes.
import type { Keyring } from '../base/keyring.ts'
import { count } from '../base/maps.ts'
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import { domainOf } from '../message/lane-names.ts'
import { keptPerReader } from './kept.ts'
import { setImmediate as turn } from 'node:timers/promises'
import type { Reader } from '../store/database.ts'
import { contactsIn, LEFT_OUT, lastContact, type LeftOut, type WalkOf } from './walk.ts'
import { Refusal } from '../base/errors.ts'
import type { Tagged } from '../message/identity.ts'
import { MAX_LINK, MAX_MESSAGE, MAX_SUBJECT } from '../message/too-large.ts'
import type { SqlCondition } from '../store/list.ts'
import type { RowOf, TableName } from '../store/schema/tables.ts'
import { raw } from '../store/query.ts'
import { contentApart } from './content-apart.ts'
import type { RuleCondition } from './rules.ts'
import { conditionOf, segmentCondition } from './segments.ts'

export type Reach = Record<LeftOut, number> & {
  contacts: number
  recipients: number
  /** The first contacts that are subscribed and suppressed, by their keys. */
  suppressed_contacts: number[]
  domains: Map<string, number>
  /** The recipients whose names and fields have the most bytes, the largest first. */
  largest: { key: number; bytes: number }[]
}

interface KeptReach {
  /** The state of the tables from which it was counted. */
  from: string
  at: number
  counted: Promise<Reach>
  /** While it is being counted, others wait for the same result. */
  running: boolean
}

/** The number of emails that are read before other work can run. */
const AT_ONCE = 5000
/** The maximum number of listed suppressed contacts. */
const MAX_NAMED = 1000
/** The maximum number of listed recipients with large values. */
const MAX_LARGEST = 20
/** How long a count is kept: a suppression may have expired. */
const KEPT = MINUTE

const kept = keptPerReader<KeptReach>(100)

interface ReachDeps {
  store: Reader
  clock: Clock
  keyring: Keyring
}

/** The recipients of a campaign: all contacts of an audience, or those of a segment. */
type CampaignTarget = Pick<RowOf<'campaigns'>, 'audience_key' | 'domain_key' | 'segment_key'>

/** A walk that starts now. */
const walkNow = (
  reader: Reader,
  { audience_key, domain_key }: Omit<CampaignTarget, 'segment_key'>,
  now: number,
): WalkOf => ({
  audience_key,
  domain_key,
  started_at: now,
  last_contact: lastContact(reader, audience_key),
})

/** The tables from which recipients are counted. */
const SOURCES: readonly TableName[] = ['contacts', 'suppressions']
const SEGMENT_SOURCES: readonly TableName[] = [...SOURCES, 'segments', 'outbound_emails']

/** Counts the recipients of a campaign to this audience or segment that starts now. */
export async function reachOf({ clock, keyring, store }: ReachDeps, addressed: CampaignTarget): Promise<Reach> {
  const { audience_key, segment_key } = addressed
  const known = kept(store)
  const now = clock.now()
  const sources = segment_key === null ? SOURCES : SEGMENT_SOURCES
  const from = sources.map((table) => store.generation(table, 'changed')).join(' ')
  // Keys are positive, so that those of segments can be stored as negative numbers.
  const name = segment_key === null ? audience_key : -segment_key
  const last = known.get(name)
  if (last && (last.running || (last.from === from && now - last.at < KEPT))) return last.counted
  const fits = segment_key === null ? undefined : segmentCondition(store, segment_key, now)
  const counted = countReach(store, keyring, walkNow(store, addressed, now), fits)
  const entry = { from, at: now, counted, running: true }
  known.set(name, entry)
  try {
    return await entry.counted
  } catch (thrown) {
    known.delete(name)
    throw thrown
  } finally {
    entry.running = false
  }
}

/** Counts the contacts of an audience that meet rules which are not stored. */
export function reachOfRules(
  { clock, keyring, store }: ReachDeps,
  audience: { key: number; domain_key: number },
  rules: readonly RuleCondition[],
): Promise<Reach> {
  const now = clock.now()
  const walk = walkNow(store, { audience_key: audience.key, domain_key: audience.domain_key }, now)
  return countReach(store, keyring, walk, conditionOf(store, audience.key, rules, now))
}

/** Counts the recipients, with `fits` those that meet the condition. Yields to other work. */
export async function countReach(reader: Reader, keyring: Keyring, walk: WalkOf, fits?: SqlCondition): Promise<Reach> {
  const none = Object.fromEntries(LEFT_OUT.map((reason) => [reason, 0])) as Record<LeftOut, number>
  const reach: Reach = { ...none, contacts: 0, recipients: 0, suppressed_contacts: [], domains: new Map(), largest: [] }
  for await (const rows of contactsIn(reader, keyring, walk, { fits })) {
    const least = reach.largest[MAX_LARGEST - 1]?.bytes ?? -1
    const large = rows.filter(({ left_out, bytes }) => left_out === null && bytes > least)
    reach.largest = [...reach.largest, ...large.map(({ key, bytes }) => ({ key, bytes }))]
      .sort((one, other) => other.bytes - one.bytes)
      .slice(0, MAX_LARGEST)
    for (const { email, key, left_out } of rows) {
      reach.contacts++
      if (left_out === null) {
        reach.recipients++
        count(reach.domains, email.slice(email.lastIndexOf('@') + 1), 1)
      } else reach[left_out]++
      if (left_out === 'suppressed' && reach.suppressed_contacts.length < MAX_NAMED) reach.suppressed_contacts.push(key)
    }
  }
  return reach
}

// Checks before a start that a campaign's emails stay below 40 MB, for the contacts with the largest values, because a
// text can repeat a merge tag thousands of times. A contact whose values grow later gets no email, with the reason
// (message/campaign.ts).

export const OVERSIZE =
  'With the longest values of a contact, the email would have 40 MB or more, a subject of 128 KB, or a link of 1 MB. Remove merge tags, or shorten the values.'

/** The maximum size of an encoded character: three bytes of UTF-8, each as "=E2", and line breaks. */
const MOST_BYTES = 9.4

type MeasuredCampaign = Pick<
  RowOf<'campaigns'>,
  | 'audience_key'
  | 'domain_key'
  | 'segment_key'
  | 'subject'
  | 'body_html'
  | 'body_text'
  | 'test_mode'
  | 'test_recipient_email'
>

interface OversizeDeps {
  store: Reader
  clock: Clock
  keyring: Keyring
}

/** Returns why a campaign cannot start, or null if it can. Throws 503 if no worker thread is available. */
export async function oversizeOf(deps: OversizeDeps, campaign: MeasuredCampaign): Promise<string | null> {
  const test = campaign.test_mode === 1
  const largest = test ? [] : (await reachOf(deps, campaign)).largest
  const readers = test
    ? [{ email: campaign.test_recipient_email ?? '', name: null, custom_fields: null }]
    : deps.store.all(
        raw<Tagged>('select email, name, custom_fields from contacts where key in (select value from json_each(?))', [
          JSON.stringify(largest.map(({ key }) => key)),
        ]),
      )
  const { body_html, body_text, subject } = campaign
  // Most texts are short enough to skip the sum. A plain text generated from the HTML is never longer than the HTML.
  const texts = [subject, body_html, body_text ?? body_html]
  const most = largest[0]?.bytes ?? 0
  const [subjects = 0, ...bodies] = texts.map((text) => text.length + tagsIn(text) * (most + LEAVE))
  const characters = bodies.reduce((sum, each) => sum + each, subjects)
  if (characters < Math.min(MAX_LINK, MAX_MESSAGE / MOST_BYTES) && subjects < MAX_SUBJECT) return null
  try {
    return (await contentApart('isTooLarge', { subject, body_html, body_text }, readers)) ? OVERSIZE : null
  } catch (thrown) {
    if (thrown instanceof Refusal && thrown.code === 'message_too_large') return thrown.message
    throw thrown
  }
}

/** The maximum length of a tracked link's token, or of an unsubscribe link. */
const LEAVE = 600

/** How many merge tags, at most, a text has. */
function tagsIn(text: string): number {
  let tags = 0
  for (let at = text.indexOf('{{'); at >= 0; at = text.indexOf('{{', at + 2)) tags++
  return tags
}

// The queue of a started campaign: the number of emails per recipient domain, and how many wait for a warm-up. A few
// thousand rows are read at a time, and the result is cached for some seconds.

interface Queued {
  /** Queued emails per recipient domain. */
  domains: Map<string, number>
  /** The number of emails that wait for a warm-up. */
  waiting: number
}

const KEPT_QUEUED = 10 * SECOND
const keptQueued = keptPerReader<{ at: number; counted: Promise<Queued> }>(100)

export function queuedOf({ clock, store }: { clock: Clock; store: Reader }, campaign: number): Promise<Queued> {
  const known = keptQueued(store)
  const now = clock.now()
  const last = known.get(campaign)
  if (last && now - last.at < KEPT_QUEUED) return last.counted
  const counted = countQueued(store, campaign)
  known.set(campaign, { at: now, counted })
  // A failed count is not cached.
  counted.catch(() => known.delete(campaign))
  return counted
}

async function countQueued(reader: Reader, campaign: number): Promise<Queued> {
  const queued: Queued = { domains: new Map(), waiting: 0 }
  for (let from = 0; ;) {
    const rows = reader.all(
      raw<{ key: number; lane: string | null; waits: 0 | 1 }>(
        `select e.key, d.lane, coalesce(d.status = 'queued' and d.response >= 'warm-up:' and d.response < 'warm-up;', 0) as waits
         from (select key from outbound_emails where campaign_key = ? and status = 'queued' and delivered_at is null
           and key > ? order by key limit ${AT_ONCE}) e
         left join deliveries d on d.email_key = e.key`,
        [campaign, from],
      ),
    )
    for (const { lane, waits } of rows) {
      if (lane !== null) count(queued.domains, domainOf(lane), 1)
      queued.waiting += waits
    }
    if (rows.length < AT_ONCE) return queued
    from = rows.at(-1)?.key ?? from
    await turn()
  }
}
