// Webhooks as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { outboundWebhooks, webhooks } from './api.ts'
import { emailEvents } from './api-events.ts'
import { webhookPlaces } from './page.ts'
import { removeOldEvents } from '../store/events.ts'
import { readUpTo } from './cursor.ts'
import { removeOldDeliveries } from './retention.ts'
import { forgetInPushed } from './forget.ts'
import { accountFindings } from './findings.ts'

export const webhooksPart = part<ApiDeps>('webhooks', {
  resources: [webhooks, outboundWebhooks, emailEvents],
  accountFindings,
  pages: webhookPlaces,
  menu: [
    { group: 'Setup', rank: 3, path: '/webhooks', key: 'w', name: 'Webhooks', icon: 'webhooks', scope: 'webhooks' },
  ],
  async hourly({ config, store }, now) {
    const { events } = config.retention
    if (events === 0) return
    await removeOldEvents(store, now - events, readUpTo(store))
    await removeOldDeliveries(store, now - events)
  },
  forget: { steps: [forgetInPushed] },
})
