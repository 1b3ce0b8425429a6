// Why a recipient is queued, in words for the API, the pages and the commands. Holds, pauses and campaigns are read
// once for all listed recipients.
import { upTo } from '../base/text.ts'
import { domainOf } from '../message/lane-names.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { learnedLanes } from './pacing/lane-memory.ts'
import type { Delivery } from './results/settle.ts'
import { heldLanes } from './queue/waiting.ts'

/** Why an email is queued that an operator holds, rather than its recipient domain. */
export const HELD = 'Held by an operator'
/** The beginning of the text that delivery/within-limits.ts writes. */
const WARM_UP = 'warm-up: '

/**
 * Returns a function that returns why a recipient is queued, or null if it is next in line or not queued, and the time
 * of its next attempt.
 */
export function waitingReasons(
  reader: Reader,
  deliveries: readonly Delivery[],
  now: number,
): (delivery: Delivery) => Pick<Delivery, 'next_attempt_at'> & { waiting_reason: string | null } {
  const held = deliveries.filter(({ status }) => status === 'held')
  const queued = deliveries.some(({ status }) => status === 'queued')
  const campaigns = held.length === 0 ? new Map<number, string>() : pausedCampaigns(reader, held)
  const holds = queued ? heldLanes(reader) : new Set<string>()
  const paused = new Set(
    (queued ? learnedLanes(reader, now) : []).flatMap((each) => (each.paused_until === null ? [] : each.lane)),
  )
  return (delivery) => {
    const { email_key, lane, next_attempt_at, status } = delivery
    const domain = domainOf(lane)
    const as = (waiting_reason: string | null, next = next_attempt_at) => ({ waiting_reason, next_attempt_at: next })
    const campaign = campaigns.get(email_key)
    if (status === 'held') return as(campaign === undefined ? HELD : `Held by the campaign ${campaign} (paused)`, null)
    if (status !== 'queued') return as(null, null)
    if (holds.has(domain)) return as(`Email to ${domain} is on hold`, null)
    const said = saidTo(delivery, now)
    return as(
      said === null && paused.has(lane) ? `Delivery to ${domain} is paused: its servers could not be reached` : said,
    )
  }
}

/** The result of the last attempt, or the limit that delays the next one. */
function saidTo(delivery: Delivery, now: number): string | null {
  const { attempts, enhanced_code, next_attempt_at, response, smtp_code, trouble_since } = delivery
  if (response?.startsWith(WARM_UP)) return `Warm-up: ${upTo(response.slice(WARM_UP.length), ';')}`
  const reply = [smtp_code, enhanced_code, response].filter((part) => part !== null).join(' ')
  if (response !== null)
    return `${trouble_since === null ? 'Deferred' : 'Delayed by a problem on this server'}: ${reply}`
  // Only the rate limit of an agent sets the first attempt of an email to a later time.
  return attempts === 0 && (next_attempt_at ?? 0) > now ? 'The sending rate of its agent is limited' : null
}

/** The names of the paused campaigns, by the keys of their emails. */
const pausedCampaigns = (reader: Reader, held: readonly Delivery[]): Map<number, string> =>
  new Map(
    reader
      .all(
        raw<{ key: number; name: string }>(
          `select e.key, c.name from outbound_emails e join campaigns c on c.key = e.campaign_key
           where e.key in (select value from json_each(?)) and c.status = 'paused'`,
          [JSON.stringify(held.map(({ email_key }) => email_key))],
        ),
      )
      .map(({ key, name }) => [key, name]),
  )
