// The queue as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { lanes } from './api.ts'
import { attempts } from './api-attempts.ts'
import { queue } from './page.ts'
import { releaseLapsed } from './queue/claim.ts'

export const deliveryPart = part<ApiDeps>('delivery', {
  resources: [attempts, lanes],
  pages: [queue],
  menu: [{ group: 'Delivery', rank: 3, path: '/queue', key: 'q', name: 'Queue', icon: 'queue', operator: true }],
  async hourly({ queueChanged, store }, now) {
    if ((await releaseLapsed(store, now)) > 0) queueChanged()
  },
})
