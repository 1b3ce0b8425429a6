// The addresses that mail leaves from, for operators.
import { z } from 'zod'
import { define } from '../jsonapi/define.ts'
import { words, wordsOrNull } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { shownSources } from './shown-sources.ts'

export const sources = define('sources', {
  table: 'source_addresses',
  scope: 'emails',
  about: 'Sending IP addresses of this server. Operators only.',
  extension: true,
  attributes: {
    address: words('Local IP address.'),
    role: field(z.enum(['any', 'transactional', 'bulk']), { about: 'Kind of email that is sent from it.' }),
    hostname: words('Host name used in EHLO.'),
    reverse_dns: wordsOrNull('PTR name. Null if unknown.'),
    forward_confirmed: field(z.boolean().nullable(), {
      about: 'Whether the PTR name is forward-confirmed, that is, resolves to the same IP address. Null if unknown.',
    }),
    listed_on: field(z.array(z.string()).nullable(), {
      about: 'Blocklists that list the IP address. Null if unknown.',
    }),
    state: wordsOrNull('State of its warm-up over all receivers. Null if there is no warm-up.'),
    used_today: field(z.int().nullable(), {
      about: 'Number of recipients attempted today. Null if they are not counted.',
    }),
    usable: field(z.boolean(), { about: 'Whether this machine can open connections from it now.' }),
  },
  actions: [
    {
      kind: 'view',
      path: '/sources',
      id: 'listSources',
      operator: true,
      params: ['page'],
      about: 'List sending IP addresses. The list is empty if the operating system selects the address.',
      run: async ({ parts }) =>
        (await shownSources(parts)).map((source, index) => ({ key: index, id: source.address, ...source })),
    },
  ],
})
