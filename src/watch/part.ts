// Blocklists and reverse DNS of the sending IP addresses as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { watches } from './api.ts'
import { sources } from './api-sources.ts'
import { watchPlace } from './page.ts'
import { Watcher } from './round.ts'
import { findings } from './findings.ts'

export const watchPart = part<ApiDeps>('watch', {
  resources: [sources, watches],
  pages: [watchPlace],
  findings,
  serverTabs: [['/server/watch', 'Blocklists']],
  loops: (deps) => [new Watcher(deps)],
})
