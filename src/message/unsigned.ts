// The octets of a mail as they are sent, without the signature of DKIM, which each attempt makes again: for its owner.
// They are made by the same functions as the letter for the exchanger.
import { compileCampaign, fillCampaign, type CampaignRecipient, type CampaignTemplate } from './campaign.ts'
import { compose } from './compose.ts'
import { wholeMail, type ComposeJob } from './letters.ts'
import { withChanges } from './relay.ts'

export type UnsignedJob =
  | Pick<ComposeJob, 'content' | 'mail' | 'spool'>
  | { template: CampaignTemplate; recipient: CampaignRecipient }

export function unsigned(job: UnsignedJob): Buffer {
  if ('template' in job) {
    const { body, header } = fillCampaign(compileCampaign(job.template), job.recipient)
    // The header is in the form for DATA; lines of a campaign's body never begin with a dot.
    const pieces = [header.replace(/^\.\./gm, '.'), ...body]
    return Buffer.concat(pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece)))
  }
  const whole = wholeMail(job)
  if (!('octets' in whole)) return Buffer.concat(Array.from(compose(whole), (piece) => Buffer.from(piece)))
  const { extra, tracking } = job.mail
  const changed = withChanges(whole.octets, { extra, tracking, sevenBit: false, asciiHeader: false })
  return typeof changed === 'string' ? whole.octets : changed
}
