// The bytes of a sent message, for its owner: without the DKIM signature, which each attempt generates again, and
// without the tokens of links that only the recipient may use. The functions are those that generate the message for
// the receiving server.
import { compileCampaign, fillCampaign, type CampaignRecipient, type CampaignTemplate } from './campaign.ts'
import { compose } from './compose.ts'
import { wholeMail, type ComposeJob } from './letters.ts'
import { withChanges } from './relay.ts'
import { hideInBody } from './secret-links.ts'

export type UnsignedJob =
  | Pick<ComposeJob, 'content' | 'fill' | 'mail' | 'mailto' | 'spool'>
  | { template: CampaignTemplate; recipient: CampaignRecipient }

export function unsigned(job: UnsignedJob): Buffer {
  if ('template' in job) {
    const { body, header } = fillCampaign(compileCampaign(job.template), job.recipient)
    // The header is in the form for DATA. Lines of a campaign's body never begin with a dot.
    const pieces = [header.replace(/^\.\./gm, '.'), ...body]
    return Buffer.concat(pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece)))
  }
  const whole = wholeMail(job, hideInBody)
  if (!('raw' in whole)) return Buffer.concat(Array.from(compose(whole), (piece) => Buffer.from(piece)))
  const { extra, tracking } = job.mail
  const changed = withChanges(whole.raw, { extra, tracking, sevenBit: false, asciiHeader: false })
  return typeof changed === 'string' ? whole.raw : changed
}
