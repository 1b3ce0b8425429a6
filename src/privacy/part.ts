// Erasures and exports of recipients as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { privacyRequests, recipientErasures, recipientExports, recipients } from './api.ts'
import { privacyPlaces } from './page.ts'

export const privacyPart = part<ApiDeps>('privacy', {
  resources: [recipients, recipientErasures, recipientExports, privacyRequests],
  pages: privacyPlaces,
  menu: [
    { group: 'Admin', rank: 3, path: '/privacy', key: 'y', name: 'Privacy', icon: 'privacy', scope: 'compliance' },
  ],
})
