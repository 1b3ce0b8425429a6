// Runs campaigns: starts due campaigns, queues the emails of sending campaigns page by page and only slightly ahead of
// delivery, and completes finished campaigns.
//
// The recipients are fixed at the start: contacts that were subscribed and not suppressed at that moment. The position
// in the list is written in the same transaction as the emails, so that a crash neither loses nor repeats a recipient.
// A campaign is `sent` when every email has a result.
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { must, Refusal } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import { isSubscribed, UNSUBSCRIBED } from '../mail/accept/admit.ts'
import { useVolume } from '../users/plan.ts'
import type { Space } from '../base/space.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { parseAddrSpec } from '../message/address.ts'
import { enqueueBulk, hasHeld, openMails } from '../mail/bulk.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { sweepContacts } from './audiences.ts'
import { brakeOf, noteBrake } from './brake.ts'
import { campaignByKey, moveCampaign, pauseCampaign, type Campaign } from './edit.ts'
import type { QueuedAhead } from './queued-ahead.ts'
import { oversizeOf, countReach } from './reach.ts'
import { fixMatches } from './segments.ts'
import { lastContact, nextPage, walked } from './walk.ts'

export interface RunDeps {
  store: Store
  clock: Clock
  log: Log
  keyring: Keyring
  config: Pick<Config, 'campaigns' | 'delivery' | 'http' | 'plans'>
  space: Pick<Space, 'low'>
  ahead: QueuedAhead
  /** Whether the system clock is unreliable, so that scheduled campaigns do not start (D120). */
  doubtful: () => boolean
  /** Wakes the queue, because a lane has new mail. */
  ringLane: (lane: string) => void
  /** A notification is queued. */
  noticed: () => void
}

/** While the disk is nearly full, campaigns check for space this often. */
const ROOM_AGAIN = 5 * SECOND
/** The delay until a campaign is retried after an error. */
const AFTER_FAULT = MINUTE

export class CampaignRunner {
  readonly #deps: RunDeps
  readonly #loop: Loop
  /** A campaign has queued all its emails and ends when they have results. */
  #ending = false

  constructor(deps: RunDeps) {
    this.#deps = deps
    this.#loop = new Loop({ name: 'campaigns', clock: deps.clock, log: deps.log, run: (now) => this.#run(now) })
    deps.ahead.onHalf(() => this.#loop.ring())
  }

  start(): void {
    this.#loop.start()
  }

  /** Wakes the loop, because a campaign's status or time has changed. */
  ring(): void {
    this.#deps.ahead.forgetAll()
    this.#loop.ring()
  }

  /** Wakes the loop, because an email of a campaign got its result, if it ends or pauses a campaign. */
  settled(): void {
    const { clock, config, store } = this.#deps
    if (
      this.#ending ||
      underWay(store, 'sending', clock.now()).some(({ key }) => brakeOf(store, config.campaigns, key))
    )
      this.#loop.ring()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #run(now: number): Promise<number | null> {
    const { ahead, clock, doubtful, log, space, store } = this.#deps
    this.#ending = false
    const due = doubtful() ? [] : underWay(store, 'scheduled', now)
    for (const { key } of due) await store.write((tx) => this.#begin(tx, key, now))
    // Contacts of removed audiences are deleted a few at a time.
    if ((await sweepContacts(store, clock.now())) > 0) this.#loop.ring()
    const broken = new Set<number>()
    let again = true
    while (again) {
      again = false
      // Each campaign queues one page in turn. An error in one does not stop the others.
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
    await this.#endPaused(now)
    const sending = underWay(store, 'sending', now)
    return earliest(
      space.low && sending.length > 0 ? clock.now() + ROOM_AGAIN : null,
      doubtful() ? clock.now() + MINUTE : nextDue(store),
      ...sending.map(({ key }) => (broken.has(key) ? clock.now() + AFTER_FAULT : ahead.stuckAt(key))),
    )
  }

  /** scheduled -> sending, or at once to failed if domain, audience or subscription forbids it. */
  #begin(tx: Tx, key: number, now: number): void {
    const campaign = campaignByKey(tx, key)
    // Its owner may have put it off, or taken it back, after it was found due.
    if (campaign?.status !== 'scheduled' || (campaign.scheduled_at ?? 0) > now) return
    const domain = tx.one(db.selectFrom('domains').selectAll().where('key', '=', campaign.domain_key))
    const audience = tx.one(db.selectFrom('audiences').selectAll().where('key', '=', campaign.audience_key))
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

  /** Runs one step of a campaign. Returns true if there is more to do at once. */
  async #advance(key: number): Promise<boolean> {
    const { ahead, clock, space, store } = this.#deps
    const campaign = campaignByKey(store, key)
    if (campaign?.status !== 'sending') return false
    if (!isSubscribed(store, campaign.user_key)) return this.#stop(key)
    if (campaign.recipients === null) return this.#count(campaign)
    const isOver = walked(campaign) && openMails(store, key, 1) === 0
    if (!isOver && brakeOf(store, this.#deps.config.campaigns, key)) return this.#brake(key)
    // With a nearly full disk queued mail is still sent, but no more is queued.
    if (space.low) return false
    if (!walked(campaign)) {
      const stuckAt = ahead.stuckAt(key)
      if (stuckAt !== null && stuckAt > clock.now()) return false
      if (stuckAt !== null) ahead.forget(key)
      return this.#page(campaign)
    }
    ahead.forget(key)
    this.#ending = true
    if (isOver) await store.write((tx) => finish(tx, key, clock.now()))
    return false
  }

  /** Ends paused campaigns whose last emails were being sent when they paused. */
  async #endPaused(now: number): Promise<void> {
    const { clock, store } = this.#deps
    for (const { key } of underWay(store, 'paused', now)) {
      const campaign = campaignByKey(store, key)
      if (!campaign || campaign.recipients === null || !walked(campaign) || hasHeld(store, key)) continue
      this.#ending = true
      if (openMails(store, key, 1) === 0) await store.write((tx) => finish(tx, key, clock.now()))
    }
  }

  /** Pauses a campaign without a subscription. Its owner can resume it after subscribing. */
  async #stop(key: number): Promise<boolean> {
    const { clock, log, store } = this.#deps
    await store.write((tx) => {
      const campaign = campaignByKey(tx, key)
      if (campaign?.status === 'sending') pauseCampaign(tx, campaign, 'lapse', clock.now(), { failure: UNSUBSCRIBED })
    })
    log.warn('campaign_paused', { campaign: key })
    return false
  }

  /** Pauses a campaign with too many bounces or complaints, and notifies its owner and whoever scheduled it (AU105). */
  async #brake(key: number): Promise<boolean> {
    const { clock, config, log, noticed, store } = this.#deps
    await store.write((tx) => {
      const campaign = campaignByKey(tx, key)
      const brake = brakeOf(tx, config.campaigns, key)
      if (campaign?.status !== 'sending' || !brake) return
      pauseCampaign(tx, campaign, 'brake', clock.now(), brake)
      noteBrake(tx, config.http.public_url, campaign, brake, clock.now())
      tx.afterCommit(noticed)
    })
    log.warn('campaign_paused', { campaign: key })
    return false
  }

  /** Counts the recipients, a part at a time. */
  async #count(campaign: Campaign): Promise<boolean> {
    const { clock, config, store } = this.#deps
    const oversize = await oversizeOf(this.#deps, campaign)
    if (oversize !== null) {
      await store.write((tx) => fail(tx, campaign.key, oversize, clock.now()))
      return false
    }
    // The one mail of a test counts against the plan like any other.
    const count = campaign.test_mode === 1 ? 1 : await this.#countRecipients(campaign)
    await store.write((tx) => reserve(tx, config, campaign, count, clock.now()))
    return true
  }

  async #countRecipients({ segment_key, ...campaign }: Campaign): Promise<number> {
    const { keyring, store } = this.#deps
    if (segment_key !== null) return fixMatches(this.#deps, { ...campaign, segment_key })
    return (await countReach(store, keyring, campaign)).recipients
  }

  async #page({ key }: Campaign): Promise<boolean> {
    const { ahead, clock, config, keyring, ringLane, store } = this.#deps
    return store.write((tx) => {
      const campaign = campaignByKey(tx, key)
      if (campaign?.status !== 'sending') return false
      const now = clock.now()
      const page = nextPage(tx, keyring, campaign)
      const { clicks_tracked, domain_key, opens_tracked, user_key } = campaign
      const lanes = enqueueBulk(
        tx,
        {
          user_key,
          domain_key,
          campaign_key: key,
          opens_tracked,
          clicks_tracked,
          expires_at: now + config.delivery.lifetime,
        },
        page.mails.map(({ contact, email }) => ({
          contact_key: contact,
          address: email,
          domain: must(parseAddrSpec(email), 'The address of a contact').domain,
        })),
        now,
      )
      const enqueued = campaign.enqueued + page.mails.length
      tx.run(
        db
          .updateTable('campaigns')
          .set({ ...page.to, enqueued, updated_at: now })
          .where('key', '=', key),
      )
      tx.afterCommit(() => {
        ahead.queued(key, page.mails.length)
        for (const lane of lanes) ringLane(lane)
      })
      return true
    })
  }
}

const earliest = (...times: (number | null)[]): number | null =>
  times.reduce((one, other) => (one === null ? other : other === null ? one : Math.min(one, other)), null)

const underWay = (reader: Reader, status: 'scheduled' | 'sending' | 'paused', now: number): { key: number }[] =>
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

/**
 * Sets the number of recipients and counts it against the plan. If the plan's limit is too low, the campaign fails
 * before any email is sent.
 */
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

/** sending -> failed, before the first mail. */
function fail(tx: Tx, key: number, failure: string, now: number): void {
  const campaign = campaignByKey(tx, key)
  if (campaign?.status === 'sending') moveCampaign(tx, campaign, 'fail', now, { failure, finished_at: now })
}

/** sending or paused -> sent, or failed if no email was sent. */
function finish(tx: Tx, key: number, now: number): void {
  const campaign = campaignByKey(tx, key)
  if ((campaign?.status !== 'sending' && campaign?.status !== 'paused') || openMails(tx, key, 1) > 0) return
  const gone = tx.first(
    raw(
      `select 1 from outbound_emails where campaign_key = ? and status in ('delivered', 'bounced', 'complained', 'failed', 'suppressed') limit 1`,
      [key],
    ),
  )
  const set = { recipients: campaign.enqueued, failure: null, finished_at: now }
  if (campaign.enqueued > 0 && !gone)
    moveCampaign(tx, campaign, 'fail', now, { ...set, failure: 'Every mail was rejected by this server.' })
  else moveCampaign(tx, campaign, 'finished', now, set)
}
