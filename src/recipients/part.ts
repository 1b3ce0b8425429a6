// The pages and emails for recipients as a part of the server.
import type { ApiDeps } from '../jsonapi/define.ts'
import { part } from '../parts/part.ts'
import { forgetCounted } from './limits.ts'

export const recipientsPart = part<ApiDeps>('recipients', {
  hourly: ({ store }, now) => forgetCounted(store, now),
})
