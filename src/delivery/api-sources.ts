// The addresses that mail leaves from, for operators.
import { z } from 'zod'
import { define } from '../jsonapi/define.ts'
import { EXTENSION, words, wordsOrNull } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { shownSources } from './shown-sources.ts'

export const sources = define('sources', {
  table: 'source_addresses',
  about: `The addresses of this server that mail leaves from; for operators. ${EXTENSION}`,
  attributes: {
    address: words('The local address.'),
    role: field(z.enum(['any', 'transactional', 'bulk']), { about: 'Which mail leaves from it.' }),
    hostname: words('The name that it says in EHLO.'),
    reverse: wordsOrNull('The name in reverse DNS; null when it is not known.'),
    forward_confirmed: field(z.boolean().nullable(), {
      about: 'Whether that name leads back to the address; null when it is not known.',
    }),
    listed_on: field(z.array(z.string()).nullable(), {
      about: 'The blocklists that have it; null when it is not known.',
    }),
    state: wordsOrNull('The state of its warm-up over all receivers; null without one.'),
    used_today: field(z.int().nullable(), { about: 'Recipients tried today; null where they are not counted.' }),
    usable: field(z.boolean(), { about: 'Whether this machine can connect from it now.' }),
  },
  actions: [
    {
      kind: 'view',
      path: '/sources',
      id: 'listSources',
      scope: 'emails:read',
      operator: true,
      params: ['page'],
      about: `List the addresses that mail leaves from; none when the system chooses. ${EXTENSION}`,
      run: async ({ parts }) =>
        (await shownSources(parts)).map((source, index) => ({ key: index, id: source.address, ...source })),
    },
  ],
})
