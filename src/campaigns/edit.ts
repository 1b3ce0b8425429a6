// Changes of a campaign by its owner: it is created, edited while it is a draft, and moved along the state table. The
// edits and the move of one request are one transaction.
import type { Clock } from '../base/clock.ts'
import { must, Refusal, refuse, refuseAttribute } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { textsOf } from '../base/json.ts'
import type { Keyring } from '../base/keyring.ts'
import { requireSubscription, strangers, untracked, listed, type OneOrMore } from '../mail/accept/admit.ts'
import {
  CAMPAIGN_STATUSES,
  campaignMachine,
  ownersMove,
  type BrakeReason,
  type CampaignStatus,
} from '../store/states/campaign.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { move } from '../store/move.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { restartCampaignFigures } from '../reputation/tally.ts'
import type { Audience } from './audiences.ts'
import { brandOf, defaultSender } from './brand.ts'
import { contentApart } from './content-apart.ts'
import { oversizeOf } from './reach.ts'
import { dropQueued, holdQueued, releaseQueued } from '../mail/bulk.ts'

export type Campaign = RowOf<'campaigns'>

export interface CampaignDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  /** Wakes the runner, because a campaign's status or time has changed. */
  ring: () => void
  /** Notifies the parts of new HTML of a campaign. */
  written: (tx: Tx, campaign: Pick<Campaign, 'key' | 'user_key'>, html: string) => void
}

export interface CampaignContent {
  name: string
  subject: string
  body_html: string
  body_text?: string | null | undefined
  from_address?: string | null | undefined
  reply_to?: OneOrMore
  test_mode?: boolean | undefined
  test_recipient_email?: string | null | undefined
  require_unsubscribe_link?: boolean | undefined
  track_opens?: boolean | null | undefined
  track_clicks?: boolean | null | undefined
}

export type CampaignChange = Partial<CampaignContent> & {
  /** The segment to which it is sent. Null: all contacts of the audience. */
  segment_key?: number | null | undefined
  scheduled_at?: number | null | undefined
  status?: CampaignStatus | undefined
}

export function addCampaign(
  { clock, store, written }: CampaignDeps,
  audience: Audience,
  given: CampaignContent & Pick<CampaignChange, 'segment_key'>,
): Promise<Campaign> {
  return store.write((tx) => {
    const now = clock.now()
    check(tx, audience.domain_key, given)
    const from_address = given.from_address === undefined ? senderFor(tx, audience) : given.from_address
    const campaign = tx.one(
      db
        .insertInto('campaigns')
        .values({
          id: newId(now),
          user_key: audience.user_key,
          domain_key: audience.domain_key,
          audience_key: audience.key,
          segment_key: null,
          test_mode: 0,
          require_unsubscribe_link: 0,
          ...columns(given),
          from_address,
          name: given.name,
          subject: given.subject,
          body_html: given.body_html,
          opens_tracked: 0,
          clicks_tracked: 0,
          status: 'draft',
          readers_to: 0,
          walked_to: 0,
          enqueued: 0,
          created_at: now,
          updated_at: now,
        })
        .returningAll(),
    )
    written(tx, campaign, campaign.body_html)
    return campaign
  })
}

/** The default sender of a new campaign. */
function senderFor(reader: Reader, { domain_key, user_key }: Audience): string | null {
  const { name } = reader.one(db.selectFrom('domains').select('name').where('key', '=', domain_key))
  return defaultSender(brandOf(reader, user_key), name)
}

const bit = (value: boolean): 0 | 1 => (value ? 1 : 0)
const flag = (value: boolean | null): 0 | 1 | null => (value === null ? null : bit(value))

/** The given members as columns of the table. */
function columns(given: Omit<CampaignChange, 'status'>): Partial<Campaign> {
  const { reply_to, require_unsubscribe_link, test_mode, track_clicks, track_opens, ...rest } = given
  const plain = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)) as Partial<Campaign>
  return {
    ...plain,
    ...(reply_to === undefined ? {} : { reply_to: listOf(reply_to) }),
    ...(test_mode === undefined ? {} : { test_mode: bit(test_mode) }),
    ...(require_unsubscribe_link === undefined ? {} : { require_unsubscribe_link: bit(require_unsubscribe_link) }),
    ...(track_opens === undefined ? {} : { track_opens: flag(track_opens) }),
    ...(track_clicks === undefined ? {} : { track_clicks: flag(track_clicks) }),
  }
}

function listOf(value: OneOrMore): string | null {
  const list = typeof value === 'string' ? [value] : (value ?? [])
  return list.length === 0 ? null : JSON.stringify(list)
}

/**
 * Checks that need the store:
 * addresses outside the domain's family, tracking that the domain does not allow. Throws 422.
 */
function check(reader: Reader, domainKey: number, given: Partial<CampaignContent>): void {
  const domain = reader.one(
    db
      .selectFrom('domains')
      .select(['name', 'open_tracking_enabled', 'click_tracking_enabled'])
      .where('key', '=', domainKey),
  )
  const addresses = [...listed('from_address', given.from_address), ...listed('reply_to', given.reply_to)]
  const problems = [...strangers(domain.name, addresses), ...untracked(domain, given)]
  if (problems.length > 0) throw new Refusal(problems)
}

/**
 * Changes and moves a campaign.
 * Throws 422 for edits of a campaign that is not a draft, and for moves that are not in the table. `by`: the user who
 * schedules it in the console.
 */
export async function changeCampaign(
  deps: CampaignDeps,
  key: number,
  change: CampaignChange,
  by?: number,
): Promise<Campaign> {
  const { clock, ring, store, written } = deps
  const { status, ...edits } = change
  // Read in a worker thread before the transaction: the text may be long.
  const found = status === 'scheduled' ? campaignByKey(store, key) : undefined
  const ready = found && (await readyToStart(deps, { ...found, ...columns(edits) }))
  return store.write((tx) => {
    const now = clock.now()
    const before = campaignByKey(tx, key)
    if (!before) throw refuse('not_found', 'No such resource exists. Check the id in the URL.')
    if (found && found.updated_at !== before.updated_at)
      throw refuse(
        'changed_meanwhile',
        'The campaign has been changed by another request. Read it again, then start it.',
      )
    const edited = Object.entries(edits).filter(([, value]) => value !== undefined)
    if (edited.length > 0) {
      if (before.status !== 'draft')
        throw notEditable(
          before.status,
          edited.map(([name]) => name),
        )
      check(tx, before.domain_key, edits)
      tx.run(
        db
          .updateTable('campaigns')
          .set({ ...columns(edits), updated_at: now })
          .where('key', '=', key),
      )
      if (edits.body_html !== undefined) written(tx, before, edits.body_html)
    }
    if (status !== undefined)
      moveByOwner(tx, must(campaignByKey(tx, key), 'The campaign'), { to: status, ready, now, by })
    tx.afterCommit(ring)
    return must(campaignByKey(tx, key), 'The campaign')
  })
}

/**
 * Moves a draft to another audience of its owner and to the sending domain of that audience. Throws 422 if the campaign
 * is not a draft, if an address is outside the new domain, or if the domain does not allow its tracking.
 */
export function readdressCampaign(
  { clock, ring, store }: CampaignDeps,
  key: number,
  audience: Audience,
  edits: Pick<Partial<CampaignContent>, 'from_address' | 'reply_to'>,
): Promise<Campaign> {
  return store.write((tx) => {
    const before = campaignByKey(tx, key)
    if (!before) throw refuse('not_found', 'No such resource exists. Check the id in the URL.')
    if (before.status !== 'draft') throw notEditable(before.status, ['audience_id'])
    const moved = audience.key !== before.audience_key
    const set = {
      ...columns(edits),
      audience_key: audience.key,
      domain_key: audience.domain_key,
      // A segment belongs to its audience.
      ...(moved && { segment_key: null }),
    }
    const after = { ...before, ...set }
    check(tx, audience.domain_key, {
      from_address: after.from_address,
      reply_to: after.reply_to === null ? null : textsOf(after.reply_to),
      track_opens: known(after.track_opens),
      track_clicks: known(after.track_clicks),
    })
    tx.run(
      db
        .updateTable('campaigns')
        .set({ ...set, updated_at: clock.now() })
        .where('key', '=', key),
    )
    tx.afterCommit(ring)
    return must(campaignByKey(tx, key), 'The campaign')
  })
}

/** A flag of the table as the API has it. */
const known = (flag: number | null): boolean | null => (flag === null ? null : flag === 1)

function notEditable(status: CampaignStatus, names: readonly string[]): Refusal {
  return new Refusal(
    names.map((name) => ({
      code: 'not_editable',
      detail: `The campaign is ${status}, and only drafts can be edited. To create another draft, use POST /campaigns.`,
      source: { pointer: `/data/attributes/${name}` },
    })),
  )
}

/** The moves that the owner can request instead, as a sentence. */
function movesOf(from: CampaignStatus): string {
  const moves = CAMPAIGN_STATUSES.filter((to) => ownersMove(from, to) !== undefined)
  return moves.length === 0 ? ' Its status is final.' : ` Possible: ${moves.join(', ')}.`
}

const BACK = ' To make it a draft again, use POST /campaigns/{id}/unschedule.'

/** Slow checks before a start. */
interface StartFacts {
  linked: boolean
  oversize: string | null
}

const readyToStart = async (deps: CampaignDeps, campaign: Campaign): Promise<StartFacts> => ({
  linked: campaign.require_unsubscribe_link === 0 || (await contentApart('hasUnsubscribeLink', campaign.body_html)),
  oversize: await oversizeOf(deps, campaign),
})

interface OwnersMove {
  to: CampaignStatus
  ready: StartFacts | undefined
  now: number
  by: number | null | undefined
}

function moveByOwner(tx: Tx, campaign: Campaign, { by = null, now, ready, to }: OwnersMove): void {
  const on = ownersMove(campaign.status, to)
  if (!on)
    throw refuseAttribute(
      'transition_not_allowed',
      'status',
      `A campaign with the status ${campaign.status} cannot be set to ${to}.${movesOf(campaign.status)}${campaign.status === 'scheduled' && to === 'draft' ? BACK : ''}`,
    )
  if (on === 'schedule' && campaign.test_mode === 1 && campaign.test_recipient_email === null)
    throw refuseAttribute(
      'required',
      'status',
      '"test_recipient_email" is missing. Set it before you schedule a campaign in test mode.',
    )
  if (on === 'schedule' && ready?.linked === false)
    throw refuseAttribute(
      'required',
      'status',
      'The campaign has no unsubscribe link. Add {{unsubscribe_url}} to "body_html", or set "require_unsubscribe_link" to false.',
    )
  if (on === 'schedule' && ready?.oversize) throw refuseAttribute('message_too_large', 'status', ready.oversize)
  if (on === 'resume') requireSubscription(tx, campaign.user_key)
  if (on === 'pause') return pauseCampaign(tx, campaign, on, now)
  const set = {
    ...(on === 'resume' ? { failure: null } : {}),
    ...(on === 'schedule' ? { scheduled_at: Math.max(campaign.scheduled_at ?? now, now), scheduled_by: by } : {}),
    ...(on === 'cancel' ? { finished_at: now } : {}),
  }
  moveCampaign(tx, campaign, on, now, set)
  if (on === 'resume') {
    restartCampaignFigures(tx, campaign.key)
    releaseQueued(tx, campaign.key, now)
  }
  if (on === 'cancel') dropQueued(tx, campaign.key, now)
}

/**
 * Changes the time of a scheduled campaign, or makes it a draft again (null). The start is a separate transaction, so
 * exactly one of the two happens. Throws 422 if it has started or was never scheduled.
 */
export function changeSchedule(
  { clock, ring, store }: CampaignDeps,
  key: number,
  scheduledAt: number | null,
): Promise<Campaign> {
  return store.write((tx) => {
    const now = clock.now()
    const campaign = campaignByKey(tx, key)
    if (!campaign) throw refuse('not_found', 'No such resource exists. Check the id in the URL.')
    const [on, at] = scheduledAt === null ? (['unschedule', null] as const) : (['reschedule', scheduledAt] as const)
    if (!moveCampaign(tx, campaign, on, now, { scheduled_at: at === null ? null : Math.max(at, now) }))
      throw refuse(
        'transition_not_allowed',
        `The campaign is ${campaign.status} and has no start time to change. Only scheduled campaigns have one.`,
      )
    tx.afterCommit(ring)
    return must(campaignByKey(tx, key), 'The campaign')
  })
}

/**
 * sending -> paused, and the queued emails are held. `failure` is the reason if the owner did not request the pause.
 */
export function pauseCampaign(
  tx: Tx,
  campaign: Campaign,
  on: 'pause' | 'lapse' | 'brake',
  now: number,
  { failure = null, reason }: { failure?: string | null; reason?: BrakeReason } = {},
): void {
  moveCampaign(tx, campaign, on, now, { failure, reason })
  holdQueued(tx, campaign.key, now)
}

/** Moves a campaign by its table and writes the event. False when the table has no such move. */
export function moveCampaign(
  tx: Tx,
  campaign: Pick<Campaign, 'key' | 'user_key' | 'domain_key'>,
  on: Parameters<typeof campaignMachine.next>[1],
  now: number,
  { reason, ...set }: Record<string, unknown> & { reason?: BrakeReason | undefined } = {},
): boolean {
  const row = move(tx, campaignMachine, campaign.key, on, { ...set, updated_at: now })
  if (row?.emits)
    appendEvent(tx, {
      type: row.emits,
      user_key: campaign.user_key,
      domain_key: campaign.domain_key,
      campaign_key: campaign.key,
      data: {
        campaign: campaign.key,
        previous_status: row.from,
        status: row.to,
        ...(set['failure'] ? { failure: set['failure'] } : {}),
        ...(reason && { reason }),
      },
      at: now,
    })
  return row !== undefined
}

/** Removes a campaign. Its sent emails stay on record, and unsent ones are never sent. */
export function removeCampaign({ clock, ring, store }: CampaignDeps, key: number): Promise<void> {
  return store.write((tx) => {
    const now = clock.now()
    tx.run(db.updateTable('campaigns').set({ deleted_at: now, updated_at: now }).where('key', '=', key))
    dropQueued(tx, key, now)
    tx.afterCommit(ring)
  })
}

export function campaignByKey(reader: Reader, key: number): Campaign | undefined {
  return reader.first(db.selectFrom('campaigns').selectAll().where('key', '=', key).where('deleted_at', 'is', null))
}
