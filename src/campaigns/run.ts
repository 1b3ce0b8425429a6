// Runs campaigns: starts what is due, puts the mails of what is sending into the queue, page by page and only a little ahead of what is
// being sent, and ends what is done.
//
// Who it goes to is settled when it starts: contacts that were subscribed and not suppressed at that moment. How far the walk is stands in
// the same transaction as the mails it made, so that a crash neither forgets nor repeats anybody. It is `sent` when no mail's end is open.
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { Refusal } from '../base/errors.ts'
import { isSubscribed, UNSUBSCRIBED } from '../outbound/admit.ts'
import { useVolume } from '../accounts/usage.ts'
import type { Space } from '../base/space.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { parseAddrSpec } from '../message/address.ts'
import { enqueueBulk, openMails } from '../outbound/bulk.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { sweepContacts } from './audiences.ts'
import { campaignByKey, moveCampaign, pauseCampaign, type Campaign } from './edit.ts'
import { countWanted, lastContact, nextPage, walked } from './walk.ts'

export interface RunDesk {
  store: Store
  clock: Clock
  log: Log
  config: Pick<Config, 'delivery' | 'plans'>
  space: Pick<Space, 'low'>
  /** Tells the queue that a lane holds new mail. */
  ringLane: (lane: string) => void
}

/** Mails that wait for their first attempt, per campaign. */
const AHEAD = 1000
/** When no mail's turn came for so long, what waits is not for now (its exchanger is away, or slow), and the walk goes on past it. */
const STUCK = 250
/** While the disk is nearly full, campaigns look so often for room. */
const ROOM_AGAIN = 5 * SECOND
/** A campaign whose turn ended in a fault has its next one so much later. */
const AFTER_FAULT = MINUTE

export class CampaignRunner {
  readonly #desk: RunDesk
  readonly #loop: Loop
  /** Mails put into the queue whose turn has not come, by campaign. */
  readonly #ahead = new Map<number, number>()
  /** When a mail's turn came last, by campaign that waits for the next. */
  readonly #moved = new Map<number, number>()

  constructor(desk: RunDesk) {
    this.#desk = desk
    this.#loop = new Loop({ name: 'campaigns', clock: desk.clock, log: desk.log, run: (now) => this.#run(now) })
  }

  start(): void {
    this.#loop.start()
  }

  /** A campaign's status or time has changed. */
  ring(): void {
    this.#ahead.clear()
    this.#moved.clear()
    this.#loop.ring()
  }

  /** A mail of a campaign found its end. */
  settled(): void {
    this.#loop.ring()
  }

  /** A mail's first turn has come. */
  taken(campaign: number): void {
    const ahead = (this.#ahead.get(campaign) ?? 1) - 1
    this.#ahead.set(campaign, ahead)
    this.#moved.set(campaign, this.#desk.clock.now())
    if (ahead === AHEAD / 2) this.#loop.ring()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #run(now: number): Promise<number | null> {
    const { clock, log, space, store } = this.#desk
    for (const { key } of underWay(store, 'scheduled', now)) await store.write((tx) => this.#begin(tx, key, now))
    // A removed audience's contacts go a few at a time.
    if ((await sweepContacts(store)) > 0) this.#loop.ring()
    const broken = new Set<number>()
    let again = true
    while (again) {
      again = false
      // In turn, a page each. A fault of one is no matter of the others.
      for (const { key } of underWay(store, 'sending', now)) {
        if (broken.has(key)) continue
        try {
          again = (await this.#advance(key)) || again
        } catch (thrown) {
          log.fault('campaign', thrown)
          broken.add(key)
        }
      }
    }
    const sending = underWay(store, 'sending', now)
    return earliest(
      space.low && sending.length > 0 ? clock.now() + ROOM_AGAIN : null,
      nextDue(store),
      ...sending.map(({ key }) => (broken.has(key) ? clock.now() + AFTER_FAULT : this.#stuckAt(key))),
    )
  }

  /** When the walk is to go on though nothing was taken; null where it does not wait. */
  #stuckAt(key: number): number | null {
    return (this.#ahead.get(key) ?? 0) < AHEAD ? null : this.#moved.get(key)! + STUCK
  }

  /** scheduled -> sending, or straight on to failed when there is nothing to send from or to. */
  #begin(tx: Tx, key: number, now: number): void {
    const campaign = campaignByKey(tx, key)
    if (campaign?.status !== 'scheduled') return
    const domain = tx.first(db.selectFrom('domains').selectAll().where('key', '=', campaign.domain_key))!
    const audience = tx.first(db.selectFrom('audiences').selectAll().where('key', '=', campaign.audience_key))!
    const tracked = (wanted: 0 | 1 | null, enabled: 0 | 1): 0 | 1 => (enabled === 1 ? (wanted ?? enabled) : 0)
    moveCampaign(tx, campaign, 'due', now, {
      started_at: now,
      last_contact: lastContact(tx, campaign.audience_key),
      opens_tracked: tracked(campaign.track_opens, domain.open_tracking_enabled),
      clicks_tracked: tracked(campaign.track_clicks, domain.click_tracking_enabled),
    })
    const failure =
      domain.deleted_at !== null || domain.status !== 'active'
        ? `The domain ${domain.name} is ${domain.deleted_at === null ? domain.status : 'removed'}, not active.`
        : audience.deleted_at !== null
          ? 'The audience was removed.'
          : isSubscribed(tx, campaign.user_key)
            ? undefined
            : UNSUBSCRIBED
    if (failure) moveCampaign(tx, campaign, 'fail', now, { failure, finished_at: now })
  }

  /** One step of a campaign; true when there is more to do at once. */
  async #advance(key: number): Promise<boolean> {
    const { clock, space, store } = this.#desk
    const campaign = campaignByKey(store, key)
    if (campaign?.status !== 'sending') return false
    if (!isSubscribed(store, campaign.user_key)) return this.#stop(key)
    if (campaign.recipients === null) return this.#count(campaign)
    // Mail that is queued goes on; more of it needs room.
    if (space.low) return false
    if (!walked(campaign)) {
      const stuckAt = this.#stuckAt(key)
      if (stuckAt !== null && stuckAt > clock.now()) return false
      if (stuckAt !== null) this.#ahead.delete(key)
      return this.#page(campaign)
    }
    this.#ahead.delete(key)
    if (openMails(store, key, 1) > 0) return false
    await store.write((tx) => finish(tx, key, clock.now()))
    return false
  }

  /** Nobody sends without a subscription; with one again the owner resumes it. */
  async #stop(key: number): Promise<boolean> {
    const { clock, log, store } = this.#desk
    await store.write((tx) => {
      const campaign = campaignByKey(tx, key)
      if (campaign?.status === 'sending') pauseCampaign(tx, campaign, 'lapse', clock.now(), UNSUBSCRIBED)
    })
    log.warn('campaign paused without a subscription', { campaign: key })
    return false
  }

  /** How many it goes to, some at a time. */
  async #count(campaign: Campaign): Promise<boolean> {
    const { clock, config, store } = this.#desk
    // A test's one mail counts against the plan as any other does.
    let count: number = campaign.test_mode
    for (let from = campaign.test_mode === 1 ? Infinity : 0; from < (campaign.last_contact ?? 0);) {
      const slice = countWanted(store, campaign, from)
      count += slice.count
      from = slice.last ?? Infinity
      // A turn of the event loop for everybody else.
      await store.write(() => {})
    }
    await store.write((tx) => reserve(tx, config, campaign, count, clock.now()))
    return true
  }

  /** Puts one page into the queue. */
  async #page({ key }: Campaign): Promise<boolean> {
    const { clock, config, ringLane, store } = this.#desk
    return store.write((tx) => {
      const campaign = campaignByKey(tx, key)
      if (campaign?.status !== 'sending') return false
      const now = clock.now()
      const lanes = new Set<string>()
      const page = nextPage(tx, campaign)
      for (const { email, contact } of page.mails)
        lanes.add(
          enqueueBulk(
            tx,
            {
              user_key: campaign.user_key,
              domain_key: campaign.domain_key,
              campaign_key: key,
              contact_key: contact,
              address: email,
              domain: parseAddrSpec(email)!.domain,
              opens_tracked: campaign.opens_tracked,
              clicks_tracked: campaign.clicks_tracked,
              expires_at: now + config.delivery.lifetime,
            },
            now,
          ),
        )
      const enqueued = campaign.enqueued + page.mails.length
      tx.run(db.updateTable('campaigns').set({ walked_to: page.to, enqueued, updated_at: now }).where('key', '=', key))
      tx.afterCommit(() => {
        this.#ahead.set(key, (this.#ahead.get(key) ?? 0) + page.mails.length)
        this.#moved.set(key, clock.now())
        for (const lane of lanes) ringLane(lane)
      })
      return true
    })
  }
}

const earliest = (...times: (number | null)[]): number | null =>
  times.reduce((one, other) => (one === null ? other : other === null ? one : Math.min(one, other)), null)

const underWay = (reader: Reader, status: 'scheduled' | 'sending', now: number): { key: number }[] =>
  reader.all(
    db
      .selectFrom('campaigns')
      .select('key')
      .where('status', '=', status)
      .where('deleted_at', 'is', null)
      .where((eb) => (status === 'scheduled' ? eb('scheduled_at', '<=', now) : eb('key', '>', 0))),
  )

function nextDue(reader: Reader): number | null {
  return (
    reader.first(
      raw<{ at: number | null }>(
        `select min(scheduled_at) as at from campaigns where status = 'scheduled' and deleted_at is null`,
      ),
    )?.at ?? null
  )
}

/** Fixes how many it goes to, and counts them all against the plan; one that the plan has no room for fails before anything is sent. */
function reserve(tx: Tx, config: Pick<Config, 'plans'>, { key, user_key }: Campaign, count: number, now: number): void {
  const campaign = campaignByKey(tx, key)
  if (campaign?.status !== 'sending' || campaign.recipients !== null) return
  try {
    useVolume(tx, config, user_key, count, now)
    tx.run(db.updateTable('campaigns').set({ recipients: count, updated_at: now }).where('key', '=', key))
  } catch (thrown) {
    if (!(thrown instanceof Refusal)) throw thrown
    moveCampaign(tx, campaign, 'fail', now, { recipients: count, failure: thrown.message, finished_at: now })
  }
}

/** sending -> sent, or failed when nothing left this server. */
function finish(tx: Tx, key: number, now: number): void {
  const campaign = campaignByKey(tx, key)
  if (campaign?.status !== 'sending') return
  const gone = tx.first(
    raw(
      `select 1 from outbound_emails where campaign_key = ? and status in ('delivered', 'bounced', 'complained', 'failed', 'suppressed') limit 1`,
      [key],
    ),
  )
  const set = { recipients: campaign.enqueued, finished_at: now }
  if (campaign.enqueued > 0 && !gone)
    moveCampaign(tx, campaign, 'fail', now, { ...set, failure: 'Every mail was rejected by this server.' })
  else moveCampaign(tx, campaign, 'finished', now, set)
}
