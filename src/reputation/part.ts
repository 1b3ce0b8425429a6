// Agents and the replies of receivers, as a part of the server.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { Reputation } from './agents.ts'
import { ReceiverAlarms } from './alarms.ts'
import { agents } from './api.ts'
import { receiverAlarms } from './api-alarms.ts'
import { domainReputation } from './api-domain.ts'
import { receivers } from './api-receivers.ts'
import { statistics } from './api-statistics.ts'
import { agentPlaces } from './page.ts'
import { domainDays } from './page-domain.ts'
import { receiverPlaces } from './page-receivers.ts'
import { settleReceivers } from './receivers.ts'
import { BAD_NEWS } from './tally.ts'
import { forgetInAgents } from './forget.ts'
import { accountFindings } from './findings.ts'

export const reputationPart = part<ApiDeps>('reputation', {
  resources: [statistics, receivers, receiverAlarms, agents, domainReputation],
  pages: [...receiverPlaces, ...agentPlaces],
  menu: [
    { group: 'Delivery', rank: 2, path: '/receivers', key: 'r', name: 'Receivers', icon: 'receivers', scope: 'emails' },
    { group: 'Setup', rank: 4, path: '/agents', key: 'g', name: 'Agents', icon: 'agents', scope: 'emails' },
  ],
  accountFindings,
  domainPanel: { title: 'Reputation', show: domainDays },
  loops(deps) {
    const agentsLoop = new Reputation({ ...deps, ringQueue: deps.queueChanged })
    deps.store.on(BAD_NEWS, () => agentsLoop.ring())
    return [agentsLoop, new ReceiverAlarms(deps)]
  },
  hourly: ({ store }, now) => settleReceivers(store, now),
  forget: { steps: [forgetInAgents] },
})
