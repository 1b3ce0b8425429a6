// Erasures and exports of recipients as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { privacyRequests, recipientErasures, recipientExports, recipients } from './api.ts'
import { recipientRequests, type AnswerParts } from './api-recipient-requests.ts'
import { privacyPlaces } from './page.ts'
import { overdueFindings, overdueIn } from './recipient-requests.ts'

export const privacyPart = part<ApiDeps & AnswerParts>('privacy', {
  resources: [recipients, recipientErasures, recipientExports, privacyRequests, recipientRequests],
  pages: privacyPlaces,
  accountFindings: overdueFindings,
  figures: [
    {
      name: 'postrider_recipient_requests_overdue',
      help: 'Requests of recipients that should have been answered.',
      type: 'gauge',
      values: ({ clock, store }) => [[{}, overdueIn(store, clock.now())]],
    },
  ],
  menu: [
    { group: 'Admin', rank: 3, path: '/privacy', key: 'y', name: 'Privacy', icon: 'privacy', scope: 'compliance' },
  ],
})
