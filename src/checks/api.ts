// The state of the server, for operators: problems that prevent its work, and its use of storage (D76).
import { z } from 'zod'
import { version } from '../base/version.ts'
import { definer, field } from '../jsonapi/resource.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { EXTENSION, timeOrNull, words } from '../jsonapi/fields.ts'

const finding = z.object({
  check: z.string(),
  status: z.enum(['ok', 'warn', 'fail']),
  detail: z.string(),
  mend: z.string().nullable(),
})
const backup = z.object({
  target: z.string(),
  status: z.enum(['running', 'failed', 'late', 'ok', 'pending']),
  last_success_at: z.iso.datetime().nullable(),
  octets: z.int().nullable(),
  seconds: z.int().nullable(),
  drill: z.enum(['running', 'failed', 'ok', 'pending']),
  last_drill_at: z.iso.datetime().nullable(),
  failures: z.int(),
})
const usage = z.object({ kind: z.string(), octets: z.int() })

/** A question that needs the whole running process. */
export interface StateParts {
  operations: {
    state(): Promise<{
      sandbox: boolean
      findings: z.output<typeof finding>[]
      storage: z.output<typeof usage>[]
      backups: z.output<typeof backup>[]
      last_backup_at: number | null
      certificate_ends_at: number | null
    }>
  }
}

export const serverState = definer<ApiDeps & StateParts>()('server-states', {
  table: 'users',
  called: 'ServerState',
  about: `How the server is; for operators who are signed in. ${EXTENSION}`,
  attributes: {
    version: words('The version of Postrider.'),
    hostname: words('The name of this machine.'),
    started_at: timeOrNull('When the process started.'),
    sandbox: field(z.boolean(), { about: 'Whether this is the sandbox; of its machine nothing is found.' }),
    findings: field(z.array(finding), { about: 'What was looked at, each with its fix.' }),
    troubles: field(z.array(z.string()), { about: 'The present problems, as in /health.' }),
    storage: field(z.array(usage), { about: 'Octets of the database, its log and the spool, and what is free.' }),
    backups: field(z.array(backup), {
      about: 'Each target of scheduled backups, and how it stands; a finding says what fixes it.',
    }),
    last_backup_at: timeOrNull('When "postrider backup" last made one.'),
    certificate_ends_at: timeOrNull('When the certificate of SMTP ends.'),
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/server',
      id: 'getServerState',
      scope: 'tokens:write',
      operator: 'person',
      params: [],
      about: `How the server is. ${EXTENSION}`,
      async run({ now, parts }) {
        const state = await parts.operations.state()
        return [
          {
            key: 0,
            id: 'server',
            version,
            hostname: parts.config.hostname,
            started_at: now - Math.round(process.uptime() * 1000),
            troubles: parts.troubles.list().map(({ sentence }) => sentence),
            ...state,
          },
        ]
      },
    },
  ],
})
