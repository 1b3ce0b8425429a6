// A campaign's life (specification "Campaign"). The owner's moves are those that a PATCH of the status may ask for, and
// the two that have addresses of their own.
//
//   draft --schedule--> scheduled --due--> sending --finished--> sent
//     |                    |     '--fail-->  |  ^ '--fail--> failed
//     '------cancel--------'           pause v  | resume
//            '--> cancelled <---cancel---- paused
import { machine } from './machine.ts'

export const CAMPAIGN_STATUSES = ['draft', 'scheduled', 'sending', 'paused', 'sent', 'cancelled', 'failed'] as const
export type CampaignStatus = (typeof CAMPAIGN_STATUSES)[number]
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
  // Not in the specification's table: without a subscription nothing is sent. When there is a subscription again, the
  // owner resumes the campaign.
  ['sending', 'lapse', 'paused', 'auto', 'campaign.paused'],
  // Not in the specification's table either (D144).
  ['scheduled', 'unschedule', 'draft', 'owner'],
  ['scheduled', 'reschedule', 'scheduled', 'owner'],
])

/** Moves that the specification refuses to a PATCH of the status; they are asked for at their own addresses. */
const APART: readonly CampaignMove[] = ['unschedule', 'reschedule']

/** The move by which a PATCH of the owner changes one status into another; undefined when there is none. */
export function ownersMove(from: CampaignStatus, to: CampaignStatus): CampaignMove | undefined {
  return campaignMachine.rows.find(
    (row) => row.from === from && row.to === to && row.by === 'owner' && !APART.includes(row.on),
  )?.on
}
