// Explanations of delivery problems as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { explanations } from './api.ts'
import { whyPlace } from './page.ts'

export const whyPart = part<ApiDeps>('why', {
  resources: [explanations],
  pages: [whyPlace],
})
