// Transactional email as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { outboundEmails, type MailParts } from './api.ts'
import { outboundEmailBatches } from './api-batches.ts'
import { outboundEmailCounts } from './api-counts.ts'
import { outboundEmailStats } from './api-stats.ts'
import { mailPlaces } from './page.ts'
import { ownsFile } from './body.ts'
import { removeOldBodies } from './retention.ts'
import { ScheduledMail } from './schedule.ts'
import { forgetInBatches, forgetInBodies, forgetInMails, underWay } from './forget.ts'

export const mailPart = part<ApiDeps & MailParts>('mail', {
  resources: [outboundEmails, outboundEmailBatches, outboundEmailStats, outboundEmailCounts],
  pages: mailPlaces,
  menu: [
    {
      group: 'Delivery',
      rank: 1,
      path: '/mail',
      key: 'm',
      name: 'Emails',
      icon: 'mail',
      scope: 'emails',
      marketing: true,
    },
  ],
  ownsFile,
  async hourly(deps, now) {
    const { outbound_bodies } = deps.config.retention
    if (outbound_bodies > 0) await removeOldBodies(deps, now - outbound_bodies)
  },
  loops: (deps) => [new ScheduledMail(deps)],
  forget: { walks: [forgetInMails, forgetInBodies, forgetInBatches], busy: underWay },
})
