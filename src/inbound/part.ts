// Received email as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { inboxes } from './api.ts'
import { inboundEmails } from './api-emails.ts'
import { inboxCounts, inboxMessages } from './api-messages.ts'
import { inboxPlaces } from './page.ts'
import { ownsFile, removeOld, type StoredDeps } from './stored.ts'
import { forgetInInbound, forgetInOldInboxes, unreadNames } from './forget.ts'

export const inboundPart = part<ApiDeps & Pick<StoredDeps, 'inboundReader'>>('inbound', {
  resources: [inboxes, inboundEmails, inboxCounts, inboxMessages],
  pages: inboxPlaces,
  menu: [{ group: 'Inbound', rank: 1, path: '/inboxes', key: 'i', name: 'Inboxes', icon: 'inboxes', scope: 'domains' }],
  ownsFile,
  async hourly(deps, now) {
    const { inbound } = deps.config.retention
    if (inbound > 0) while ((await removeOld(deps, now - inbound)) > 0);
  },
  forget: { walks: [forgetInInbound], steps: [forgetInOldInboxes], busy: unreadNames },
})
