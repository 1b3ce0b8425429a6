// Pauses a campaign when too many of its emails bounce or are complained about, counted since its start or its last
// resume (AU105, AU106). Each result is added to one row, which is read when results were committed.
import type { Config } from '../base/config.ts'
import { Counter } from '../base/counters.ts'
import { percent } from '../base/text.ts'
import { counterMetric } from '../parts/part.ts'
import { ownerAddress, addNotice } from '../users/notices.ts'
import { campaignFigures, type Figures } from '../reputation/tally.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { BRAKE_REASONS, type BrakeReason } from '../store/states/campaign.ts'

export interface Brake {
  reason: BrakeReason
  /** The metric and its limit, as a sentence. */
  failure: string
}

/** Smaller campaigns, and tests, are not paused. */
const FEWEST_RECIPIENTS = 50
/** Bounces are evaluated from this number of emails on, and from half of it against three times the limit. */
const ENOUGH = 100
/** Complaints are evaluated from this number of deliveries on. Before, a number of complaints is the limit. */
const ENOUGH_DELIVERED = 500
const MOST_BEFORE = 5
const FEWEST_COMPLAINTS = 3

const braked = statement<{ key: number }>()((arg) =>
  db.selectFrom('campaigns').select(['recipients', 'test_mode']).where('key', '=', arg.key),
)

/** Why a campaign must pause now, or undefined. */
export function brakeOf(reader: Reader, limits: Config['campaigns'], key: number): Brake | undefined {
  const brake = exceeded(campaignFigures(reader, key), limits)
  if (!brake) return undefined
  const campaign = reader.first(braked({ key }))
  const small = campaign?.test_mode !== 0 || (campaign.recipients ?? 0) < FEWEST_RECIPIENTS
  return small ? undefined : brake
}

function exceeded({ bounces, complaints, deliveries }: Figures, limits: Config['campaigns']): Brake | undefined {
  const ended = deliveries + bounces
  const most = ended >= ENOUGH ? limits.brake_bounces : ended >= ENOUGH / 2 ? 3 * limits.brake_bounces : Infinity
  if (limits.brake_bounces > 0 && bounces / ended > most)
    return {
      reason: 'bounces',
      failure: `${bounces} of ${ended} emails bounced (${percent(bounces / ended)}), more than the limit of ${percent(most)}. Remove invalid addresses before you resume the campaign.`,
    }
  if (limits.brake_complaints === 0) return undefined
  const said = `${complaints} recipients of ${deliveries} delivered emails complained`
  const then = 'Send only to contacts who agreed to receive the email.'
  if (deliveries >= ENOUGH_DELIVERED)
    return complaints >= FEWEST_COMPLAINTS && complaints / deliveries > limits.brake_complaints
      ? {
          reason: 'complaints',
          failure: `${said} (${percent(complaints / deliveries)}), more than the limit of ${percent(limits.brake_complaints)}. ${then}`,
        }
      : undefined
  return complaints >= MOST_BEFORE
    ? { reason: 'complaints', failure: `${said}, which reaches the limit of ${MOST_BEFORE}. ${then}` }
    : undefined
}

const pauses = new Counter(
  'postrider_campaigns_paused_automatically_total',
  'Campaigns that paused automatically, by reason.',
  BRAKE_REASONS.map((reason) => ({ reason })),
)
/** What /metrics shows about automatic pauses (AU111). */
export const brakeFigure = counterMetric(pauses)

/** Counts a pause and notifies the owner of the account, and the user who scheduled the campaign if that is another. */
export function noteBrake(
  tx: Tx,
  url: string,
  campaign: RowOf<'campaigns'>,
  { failure, reason }: Brake,
  now: number,
): void {
  const { domain_key, id, name, scheduled_by, user_key } = campaign
  const owner = ownerAddress(tx, user_key)
  const starter =
    scheduled_by === null
      ? undefined
      : tx.first(db.selectFrom('users').select('email').where('key', '=', scheduled_by))?.email
  const notice = {
    user_key,
    domain_key,
    subject: `The campaign "${name}" is paused`,
    text: [
      `The campaign "${name}" was paused automatically. ${failure}`,
      'The remaining emails are held until you resume or cancel it. After a resume, the count starts again.',
      `${url}/campaigns/${id}`,
    ].join('\n\n'),
  }
  tx.afterCommit(() => pauses.add({ reason }))
  addNotice(tx, notice, now)
  if (starter !== undefined && starter !== owner) addNotice(tx, { ...notice, recipient: starter }, now)
}
