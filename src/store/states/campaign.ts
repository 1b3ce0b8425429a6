// The life cycle of a campaign (specification "Campaign"). The owner's moves are those that a PATCH of the status can
// request, and the two that have their own endpoints.
//
//   draft --schedule--> scheduled --due--> sending --finished--> sent
//     |                    |     '--fail-->  |  ^ '--fail--> failed
//     '------cancel--------'           pause v  | resume
//            '--> cancelled <---cancel---- paused --finished--> sent
//                                             '--fail--> failed
import { machine } from './machine.ts'

export const CAMPAIGN_STATUSES = ['draft', 'scheduled', 'sending', 'paused', 'sent', 'cancelled', 'failed'] as const
export type CampaignStatus = (typeof CAMPAIGN_STATUSES)[number]
/** Why a campaign was paused automatically. */
export const BRAKE_REASONS = ['bounces', 'complaints'] as const
export type BrakeReason = (typeof BRAKE_REASONS)[number]
export type CampaignMove =
  | 'schedule'
  | 'unschedule'
  | 'reschedule'
  | 'cancel'
  | 'pause'
  | 'resume'
  | 'due'
  | 'finished'
  | 'fail'
  | 'lapse'
  | 'brake'

export const campaignMachine = machine<CampaignStatus, CampaignMove>('campaigns', [
  ['draft', 'schedule', 'scheduled', 'owner'],
  ['draft', 'cancel', 'cancelled', 'owner'],
  ['scheduled', 'cancel', 'cancelled', 'owner'],
  ['sending', 'pause', 'paused', 'owner', 'campaign.paused'],
  ['paused', 'resume', 'sending', 'owner', 'campaign.sending'],
  ['paused', 'cancel', 'cancelled', 'owner'],
  ['scheduled', 'due', 'sending', 'auto', 'campaign.sending'],
  ['sending', 'finished', 'sent', 'auto', 'campaign.sent'],
  ['sending', 'fail', 'failed', 'auto', 'campaign.failed'],
  // Not in the specification's table: a campaign without a subscription is paused. After a new subscription, the owner
  // resumes it.
  ['sending', 'lapse', 'paused', 'auto', 'campaign.paused'],
  // Not in the specification's table either: too many emails bounced or were complained about (AU105).
  ['sending', 'brake', 'paused', 'auto', 'campaign.paused'],
  // Not in the specification's table either: the last results of a paused campaign came after the pause.
  ['paused', 'finished', 'sent', 'auto', 'campaign.sent'],
  ['paused', 'fail', 'failed', 'auto', 'campaign.failed'],
  // Not in the specification's table either (D144).
  ['scheduled', 'unschedule', 'draft', 'owner'],
  ['scheduled', 'reschedule', 'scheduled', 'owner'],
])

/** Moves that the specification excludes from a PATCH of the status. They have their own endpoints. */
const APART: readonly CampaignMove[] = ['unschedule', 'reschedule']

/** Returns the move by which the owner's PATCH changes one status into another, or undefined without such a move. */
export function ownersMove(from: CampaignStatus, to: CampaignStatus): CampaignMove | undefined {
  return campaignMachine.rows.find(
    (row) => row.from === from && row.to === to && row.by === 'owner' && !APART.includes(row.on),
  )?.on
}
