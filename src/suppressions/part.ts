// Suppressed addresses as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { suppressions } from './api.ts'
import { forgetSoftBounces } from './suppressions.ts'
import { forgetInSuppressions } from './forget.ts'

export const suppressionsPart = part<ApiDeps>('suppressions', {
  resources: [suppressions],
  menu: [
    {
      group: 'Delivery',
      rank: 4,
      path: '/suppressions',
      key: 'u',
      name: 'Suppressions',
      icon: 'suppressions',
      scope: 'suppressions',
      marketing: true,
    },
  ],
  hourly: ({ store }, now) => forgetSoftBounces(store, now),
  forget: { first: forgetInSuppressions },
})
