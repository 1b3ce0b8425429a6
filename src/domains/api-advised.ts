// DNS records that are not required, but make a domain's mail safer, and that mail graders check (D78).
import { z } from 'zod'
import { ADVISED_STATES } from './advised.ts'
import { domains, type DomainParts } from './api.ts'
import { definer, field, parentOf } from '../jsonapi/resource.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, words, wordsOrNull } from '../jsonapi/fields.ts'

export const advisedRecords = definer<ApiDeps & DomainParts>()('advised-records', {
  table: 'records',
  called: 'AdvisedRecord',
  about: `DNS records that are advised for a domain and this host. ${EXTENSION}`,
  attributes: {
    record_type: field(z.enum(['FROM_SPF', 'HELO_SPF', 'CAA', 'TLSA', 'MTA_STS', 'TLS_RPT']), {
      about: 'What it is for.',
    }),
    name: words('Where it stands in DNS.'),
    dns_type: field(z.enum(['TXT', 'CAA', 'TLSA', 'CNAME']), { about: 'Its type in DNS.' }),
    value: words('What it should say.'),
    ttl: count('Suggested time to live in seconds.'),
    observed: wordsOrNull('The present value in DNS, if it was looked up.'),
    answered: field(z.boolean(), {
      about: 'False when DNS did not answer: another record may already exist at this name.',
    }),
    state: field(z.enum(ADVISED_STATES), { about: 'How DNS stands to it now.' }),
    required: field(z.literal(false), { about: 'None of these is required.' }),
  },
  actions: [
    {
      kind: 'view',
      path: '/domains/:domain/advised-records',
      within: { type: 'domains', column: 'domain_key' },
      params: ['page'],
      id: 'listAdvisedRecords',
      scope: 'domains:read',
      about: `List the DNS records that are advised for a domain. ${EXTENSION}`,
      async run(call) {
        const domain = parentOf(domains, call)
        const advised = await call.parts.operations.advised(domain)
        return advised.map((record, index) => ({
          ...record,
          dns_type: record.type,
          required: false,
          key: index,
          id: `${domain.id}-${record.record_type}-${index}`,
        }))
      },
    },
  ],
})
