// The state of the server, for operators: problems that prevent its work, and its use of storage (D76).
import { z } from 'zod'
import { version } from '../base/version.ts'
import { definer, field } from '../jsonapi/resource.ts'
import { shownFinding, type Finding } from '../parts/findings/finding.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { timeOrNull, words } from '../jsonapi/fields.ts'
import { readServing } from '../store/serving.ts'

const finding = z.object({
  check: z.string(),
  status: z.enum(['ok', 'warn', 'fail']),
  detail: z.string(),
  effect: z.string().nullable(),
  fix: z.string().nullable(),
  href: z.string(),
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

/** A check that needs the whole running process. */
export interface StateParts {
  operations: {
    /** At most a minute old. */
    findings(): readonly Finding[]
    ofAccount(userKey: number): readonly Finding[]
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
  about: 'Health of the server. For operators who are signed in to the console.',
  extension: true,
  attributes: {
    version: words('Version of Postrider.'),
    hostname: words('Host name of this machine.'),
    started_at: timeOrNull('Time when the process started. Null if unknown.'),
    machine: words('Name of the machine.'),
    serving_since: timeOrNull('Time since when this machine has been serving. A failover pair has two machines.'),
    term: field(z.int(), { about: 'Number that rises with each takeover by another machine.' }),
    sandbox: field(z.boolean(), { about: 'Whether this is the sandbox, which does not check its machine.' }),
    findings: field(z.array(finding), {
      about:
        'Results of all checks. A problem has a fix. `effect` is its consequence, or null. `href` is a page of the console.',
    }),
    troubles: field(z.array(z.string()), { about: 'Present problems, as in `/health`.' }),
    storage: field(z.array(usage), {
      about: 'Size of the database, its write-ahead log and the spool, and the free space, in bytes.',
    }),
    backups: field(z.array(backup), {
      about: 'Destinations of scheduled backups with their status. For a failure, a check result contains the fix.',
    }),
    last_backup_at: timeOrNull('Time when "postrider backup" last created a backup. Null if it has not.'),
    certificate_ends_at: timeOrNull('Time when the SMTP certificate expires. Null if absent.'),
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/server',
      id: 'getServerState',
      scope: 'tokens:write',
      operator: true,
      person: true,
      params: [],
      about: 'Get the health of the server.',
      async run({ now, parts }) {
        const state = await parts.operations.state()
        const serving = readServing(parts.config.data_dir)
        return [
          {
            key: 0,
            id: 'server',
            version,
            hostname: parts.config.hostname,
            started_at: now - Math.round(process.uptime() * 1000),
            machine: serving?.name ?? '',
            serving_since: Date.parse(serving?.since ?? '') || null,
            term: serving?.term ?? 1,
            troubles: parts.troubles.list().map(({ sentence }) => sentence),
            ...state,
          },
        ]
      },
    },
  ],
})

export const presentFindings = definer<ApiDeps & StateParts>()('findings', {
  table: 'users',
  about: 'Problems of the account: domains, webhooks and campaigns that do not send, and providers that reject email.',
  extension: true,
  attributes: {
    check: words('Kind of problem, such as `domain` or `webhook`.'),
    subject: words('Name of the domain, webhook, campaign or receiver. Empty for the whole account.'),
    status: field(z.enum(['warn', 'fail']), { about: 'Severity of the problem.' }),
    detail: words('Description of the problem.'),
    fix: words('Recommended fix.'),
    href: words('Page of the console that shows more.'),
  },
  actions: [
    {
      kind: 'view',
      path: '/findings',
      id: 'listFindings',
      scope: 'emails:read',
      params: ['page'],
      about: 'List the present problems of the account.',
      run: ({ caller, parts }) =>
        parts.operations.ofAccount(caller.userKey).map((each, key) => ({
          ...shownFinding(each),
          subject: each.subject,
          key,
          id: `${caller.userId}-${key}`,
        })),
    },
  ],
})
