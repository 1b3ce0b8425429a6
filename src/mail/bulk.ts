// Campaign mail in the queue: small rows, added page by page, on separate lanes, so that other mail never waits behind
// a hundred thousand of them. The campaign holds, releases and drops these rows.
import { counters } from '../base/counters.ts'
import { newId } from '../base/ids.ts'
import { deliveryMachine } from '../store/states/delivery.ts'
import { emailMachine } from '../store/states/outbound-email.ts'
import type { Reader, Tx } from '../store/database.ts'
import { moveAll } from '../store/move.ts'
import { raw, db } from '../store/query.ts'
import { bulkLane } from '../message/lane-names.ts'
import { countReceiver } from '../reputation/receivers.ts'
import {
  ageOf,
  CAMPAIGN_MAIL,
  isHeard,
  settle,
  sourceOf,
  UNBOUND_IF_UNTRIED,
  type Settling,
} from '../delivery/results/settle.ts'
import { enqueuePage } from '../delivery/queue/enqueue.ts'
import { tally } from '../reputation/tally.ts'
import { must } from '../base/errors.ts'
import { DAY } from '../base/clock.ts'
import type { ListedRow } from '../store/list.ts'
import { sharedIdentity, taggedOf } from '../message/identity.ts'

/** The columns that the emails of one page share. */
export interface BulkPage {
  user_key: number
  domain_key: number
  campaign_key: number
  opens_tracked: 0 | 1
  clicks_tracked: 0 | 1
  expires_at: number
}

export interface BulkRecipient {
  /** Null for a test mail. */
  contact_key: number | null
  address: string
  /** The recipient domain, A-label. */
  domain: string
}

/** Each row of the JSON is [id, contact, address]. */
const INSERT = `insert into outbound_emails (id, user_key, domain_key, campaign_key, contact_key, "from", "to", subject,
    opens_tracked, clicks_tracked, message_id, status, queued_at, created_at, updated_at)
  select value ->> 0, ?, ?, ?, value ->> 1, '', value ->> 2, '', ?, ?, '', 'queued', ?, ?, ? from json_each(?) where true`

/** Puts emails of a campaign into the queue. Returns the names of their lanes. */
export function enqueueBulk(tx: Tx, page: BulkPage, recipients: readonly BulkRecipient[], now: number): Set<string> {
  const { campaign_key, clicks_tracked, domain_key, expires_at, opens_tracked, user_key } = page
  const mails = recipients.map((each) => ({ ...each, id: newId(now), lane: bulkLane(each.domain) }))
  const rows = JSON.stringify(mails.map(({ address, contact_key, id }) => [id, contact_key, address]))
  tx.run(raw(INSERT, [user_key, domain_key, campaign_key, opens_tracked, clicks_tracked, now, now, now, rows]))
  enqueuePage(tx, { domain_key, at: now, due: now, expires_at }, mails)
  return new Set(mails.map(({ lane }) => lane))
}

/** The number of a campaign's undecided emails. The count ends at `most`. */
export function openMails(reader: Reader, campaignKey: number, most: number): number {
  return reader.one(
    raw<{ count: number }>(
      `select count(*) as count from (
         select 1 from outbound_emails where campaign_key = ? and status in ('queued', 'sent') limit ?)`,
      [campaignKey, most],
    ),
  ).count
}

/** Whether any email of a campaign is held. */
export const hasHeld = (reader: Reader, campaignKey: number): boolean =>
  reader.first(
    raw(
      `select 1 from deliveries d join outbound_emails e on e.key = d.email_key
       where e.campaign_key = ? and e.status in ('queued', 'sent') and d.status = 'held' limit 1`,
      [campaignKey],
    ),
  ) !== undefined

const OPEN = `select key from outbound_emails where campaign_key = ? and status in ('queued', 'sent')`

/** Holds a campaign's queued mail until it is released. */
export function holdQueued(tx: Tx, campaignKey: number, now: number): void {
  moveAll(tx, deliveryMachine, 'hold', {
    set: 'updated_at = ?',
    where: `email_key in (${OPEN})`,
    parameters: [now, campaignKey],
  })
}

export function releaseQueued(tx: Tx, campaignKey: number, now: number): void {
  moveAll(tx, deliveryMachine, 'release', {
    set: 'next_attempt_at = coalesce(next_attempt_at, ?), updated_at = ?',
    where: `email_key in (${OPEN})`,
    parameters: [now, now, campaignKey],
  })
}

/** Ends a campaign's waiting mail: an email without an attempt is deleted, and an email with an attempt fails. */
export function dropQueued(tx: Tx, campaignKey: number, now: number): void {
  tx.run(
    raw(
      `delete from outbound_emails where key in (
         select v.email_key from deliveries v where v.status in ('queued', 'held') and v.attempts = 0 and v.email_key in (${OPEN}))`,
      [campaignKey],
    ),
  )
  moveAll(tx, deliveryMachine, 'drop', {
    set: 'next_attempt_at = null, updated_at = ?',
    where: `email_key in (${OPEN})`,
    parameters: [now, campaignKey],
  })
  moveAll(tx, emailMachine, 'dropped', {
    set: 'failed_at = ?, updated_at = ?',
    where: `campaign_key = ?
      and not exists (select 1 from deliveries v where v.email_key = outbound_emails.key and v.status = 'active')`,
    parameters: [now, now, campaignKey],
  })
}

/**
 * Puts back a claimed mail whose campaign does not send now, as if it had not been claimed: held or queued, like the
 * campaign's other mail. The campaign's status is read again here, because the campaign may have resumed in the
 * meantime: mail that is held after that would never be released.
 */
export function withdraw(tx: Tx, deliveryKey: number, campaignKey: number, now: number): void {
  const campaign = tx.first(
    raw<{ status: string; deleted_at: number | null }>('select status, deleted_at from campaigns where key = ?', [
      campaignKey,
    ]),
  )
  moveAll(tx, deliveryMachine, campaign?.status === 'sending' ? 'withdraw' : 'withhold', {
    set: `leased_until = null, next_attempt_at = ?, lane = ${UNBOUND_IF_UNTRIED}, attempts = attempts - 1, updated_at = ?`,
    where: 'key = ?',
    parameters: [now, now, deliveryKey],
  })
  if (!campaign || campaign.deleted_at !== null || campaign.status === 'cancelled') dropQueued(tx, campaignKey, now)
}

/** Writes the verdict on a campaign's mail, with fewer details than for other mail, because such emails are many. */
export const settleBulk = (tx: Tx, settling: Settling): void => settlePage(tx, [settling])

/**
 * Writes the verdicts on emails of campaigns. The usual emails, which were handed over and accepted in the same
 * attempt, are settled by two statements for each reply. Throws when one of several emails is in another state.
 */
export function settlePage(tx: Tx, page: readonly Settling[]): void {
  for (const { email } of page) tx.signal(CAMPAIGN_MAIL, email.user_key)
  const usual = ({ delivery, verdict }: Settling): boolean =>
    verdict.kind === 'delivered' && !isHeard(tx, delivery.domain_key)
  const replies = Map.groupBy(page, (settling) => (usual(settling) ? replyName(settling) : undefined))
  for (const [reply, group] of replies)
    if (reply === undefined || !settleTaken(tx, group))
      for (const settling of group) settle(tx, { ...settling, brief: true })
}

const replyName = ({ delivery, verdict }: Settling): string => {
  const { code, enhanced, host, security, tls } = verdict
  return JSON.stringify([code, enhanced, host, tls, security, sourceOf(delivery, verdict)])
}

/**
 * Settles emails with the same reply. Returns false if the only one is in another state: then settle.ts follows the
 * state table.
 */
function settleTaken(tx: Tx, group: readonly Settling[]): boolean {
  const [first, ...others] = group
  if (!first) return true
  const { now, verdict } = first
  const keys = (of: (delivery: Settling['delivery']) => number): string =>
    JSON.stringify(group.map(({ delivery }) => of(delivery)))
  const moved = moveAll(tx, emailMachine, 'taken', {
    set: 'sent_at = ?, delivered_at = ?, updated_at = ?',
    where: 'key in (select value from json_each(?))',
    parameters: [now, now, now, keys(({ email_key }) => email_key)],
  })
  const settled =
    moved === 0
      ? 0
      : moveAll(tx, deliveryMachine, 'accept', {
          set: 'smtp_code = ?, enhanced_code = ?, remote_mta = ?, tls = ?, security = ?, source = ?, leased_until = null, updated_at = ?',
          where: 'key in (select value from json_each(?))',
          parameters: [
            verdict.code,
            verdict.enhanced,
            verdict.host,
            verdict.tls,
            verdict.security,
            sourceOf(first.delivery, verdict),
            now,
            keys(({ key }) => key),
          ],
        })
  if (settled < group.length) {
    if (others.length === 0) return false
    throw new Error('A mail of a page is in another state than the others.')
  }
  for (const { delivery, email, ...settling } of group) {
    settling.slot?.settled(tx, delivery, settling.verdict, now)
    tally(tx, { ...email, agent_id: null }, 'delivery', now)
    countReceiver(tx, { email, delivery, verdict, age: ageOf({ ...settling, delivery, email }) }, now)
  }
  tx.afterCommit(() => counters.mails.add({ outcome: 'delivered' }, group.length))
  return true
}

// A campaign's emails in lists: the columns that they share with their campaign, and a faster way to find the emails of
// a large campaign.

interface Common {
  key: number
  from_address: string | null
  subject: string
  domain: string
  test_mode: number
}

interface ReachedContact {
  key: number
  email: string
  name: string | null
  custom_fields: string | null
}

const NOBODY = { email: null, name: null, custom_fields: null }

/** Gives campaign emails their sender, subject (filled for its contact) and Message-ID. Other rows stay as they are. */
export function fillLean(reader: Reader, rows: ListedRow[]): void {
  const lean = rows.filter((row) => row['campaign_key'] !== null && row['campaign_key'] !== undefined)
  if (lean.length === 0) return
  const common = new Map(
    reader
      .all(
        raw<Common>(
          `select c.key, c.from_address, c.subject, c.test_mode, d.name as domain from campaigns c join domains d on d.key = c.domain_key
           where c.key in (select value from json_each(?))`,
          [JSON.stringify([...new Set(lean.map((row) => row['campaign_key']))])],
        ),
      )
      .map((campaign) => [campaign.key, campaign]),
  )
  const tagged = lean.filter((row) => common.get(row['campaign_key'] as number)?.subject.includes('{{'))
  const contacts = contactsOf(reader, tagged)
  for (const row of lean) {
    const campaign = must(common.get(row['campaign_key'] as number), 'The campaign of a mail')
    const to = taggedOf(contacts.get(row['contact_key']) ?? NOBODY, { ...campaign, to: row['to'] as string })
    row['stream'] = 'bulk'
    Object.assign(row, sharedIdentity(row['id'] as string, campaign, campaign.domain, to))
  }
}

/** The contacts that emails go to, by their keys. */
function contactsOf(reader: Reader, rows: readonly ListedRow[]): Map<unknown, ReachedContact> {
  const keys = rows.flatMap((row) => (typeof row['contact_key'] === 'number' ? [row['contact_key']] : []))
  if (keys.length === 0) return new Map()
  const found = reader.all(
    raw<ReachedContact>(
      'select key, email, name, custom_fields from contacts where key in (select value from json_each(?))',
      [JSON.stringify(keys)],
    ),
  )
  return new Map(found.map((contact) => [contact.key, contact]))
}

/** The number of recipients from which a campaign is large. */
const LARGE = 10_000

/**
 * A condition for the emails of one large campaign by their time of creation, which is the order of lists. With the
 * index of campaigns, all of these emails would be read and sorted for each page. Returns undefined for other queries.
 */
export function ofLargeCampaign(
  keys: readonly number[],
  reader: Reader,
): { sql: string; parameters: number[] } | undefined {
  const [key] = keys
  if (key === undefined || keys.length > 1) return undefined
  const campaign = reader.first(
    db
      .selectFrom('campaigns')
      .select(['created_at', 'finished_at'])
      .where('key', '=', key)
      .where('recipients', '>=', LARGE),
  )
  if (!campaign) return undefined
  // The "+" stops SQLite from using the index of campaigns. The additional day is for clocks that were set back.
  return {
    sql: '+campaign_key = ? and created_at >= ? and created_at <= ?',
    parameters: [key, campaign.created_at - DAY, (campaign.finished_at ?? Number.MAX_SAFE_INTEGER) + DAY],
  }
}
