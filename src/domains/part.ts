// Sending domains as a part of the server.
import { part, type ServerPart } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { domains, records, senderDomains, type DomainParts, advisedRecords } from './api.ts'
import { settleDowngrades } from './downgrades.ts'
import { domainPlaces } from './page.ts'
import { accountFindings, findings } from './findings.ts'

type DomainsPartDeps = ApiDeps & DomainParts & { subjects: readonly Pick<ServerPart, 'domainPanel'>[] }

export const domainsPart = part<DomainsPartDeps>('domains', {
  resources: [domains, senderDomains, records, advisedRecords],
  pages: ({ subjects }) => domainPlaces(subjects.flatMap(({ domainPanel }) => domainPanel ?? [])),
  accountFindings,
  findings,
  menu: [{ group: 'Setup', rank: 1, path: '/domains', key: 'd', name: 'Domains', icon: 'domains', scope: 'domains' }],
  hourly: (deps, now) => settleDowngrades(deps, now),
})
