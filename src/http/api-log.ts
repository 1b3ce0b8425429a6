// The server's log, and samples of its activity in the last hour, for operators (D76).
import { z } from 'zod'
import { LEVELS } from '../base/log.ts'
import { definer, field } from '../jsonapi/resource.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, time, words } from '../jsonapi/fields.ts'
import type { Samples } from './samples.ts'

export const logLines = define('log-lines', {
  table: 'users',
  about: `The last lines of the log; for operators who are signed in. ${EXTENSION}`,
  attributes: {
    at: time('When it was written.'),
    level: field(z.enum(LEVELS), { about: 'The level of the line.' }),
    event: words('What happened, as docs/logs.md lists it.'),
    fields: field(z.record(z.string(), z.unknown()), { about: 'The fields of the line.' }),
  },
  actions: [
    {
      kind: 'view',
      scope: 'tokens:write',
      operator: 'person',
      params: ['page'],
      path: '/server/log',
      id: 'listLogLines',
      about: `List the last 500 lines of the log since the server began, the newest first. ${EXTENSION}`,
      run: ({ parts }) =>
        (parts.log.recent?.() ?? [])
          .map((entry, index) => ({ ...entry, key: index + 1, id: `line-${entry.at}-${index + 1}` }))
          .reverse(),
    },
  ],
})

export const serverSamples = definer<ApiDeps & { samples: Samples }>()('server-samples', {
  table: 'users',
  about: `What the server did, in steps of ten seconds; for operators who are signed in. ${EXTENSION}`,
  attributes: {
    at: time('The end of the step.'),
    waiting: count('Recipients whose mail waits; counted up to 10,000.'),
    delivered: count('Recipients whose mail was delivered in the step.'),
    deferred: count('Attempts that are repeated later.'),
    refused: count('Recipients whose mail found another end.'),
    received: count('Messages that came into inboxes.'),
    memory: count('Octets that the process occupies.'),
    busy: field(z.number(), { about: 'The share of the step in which the main thread worked, from 0 to 1.' }),
  },
  actions: [
    {
      kind: 'view',
      scope: 'tokens:write',
      operator: 'person',
      params: ['page'],
      path: '/server/samples',
      id: 'listServerSamples',
      about: `List what the server did in the last hour, the newest first. ${EXTENSION}`,
      run: ({ parts }) =>
        parts.samples
          .all()
          .map((sample, index) => ({ ...sample, key: index + 1, id: `sample-${sample.at}` }))
          .reverse(),
    },
  ],
})
