// The settings that an operator can change in the console. They are in the configuration file of the server.
import { z } from 'zod'
import { targetOf } from '../base/backup-target.ts'
import { OperatorError, refuseAttribute } from '../base/errors.ts'
import { definer, field } from '../jsonapi/resource.ts'
import type { ApiDeps } from '../jsonapi/define.ts'

/** A setting of the configuration file. Without a section, it is above the first one. */
export interface SettingChange {
  section?: 'acme' | 'backup'
  key: string
  value: string | boolean | readonly string[]
}

export interface SettingsParts {
  settings: {
    /** Changes the configuration file and applies it. Throws a refusal. */
    change(changes: readonly SettingChange[]): Promise<void>
  }
}

type GivenSettings = Partial<{ hostname: string; acme_email: string; backup_destination: string }>

function changesOf(
  { acme_email, backup_destination, hostname }: GivenSettings,
  to: readonly string[],
): SettingChange[] {
  const acme = [
    { key: 'enabled', value: true },
    { key: 'accept_terms', value: true },
    { key: 'email', value: acme_email ?? '' },
  ].map((each) => ({ section: 'acme' as const, ...each }))
  return [
    ...(hostname === undefined ? [] : [{ key: 'hostname', value: hostname }]),
    ...(acme_email === undefined ? [] : acme),
    ...(backup_destination === undefined
      ? []
      : [{ section: 'backup' as const, key: 'to', value: [...to, demandDestination(backup_destination)] }]),
  ]
}

/** Throws a refusal for a command: the console must not run commands of a person who is signed in. */
function demandDestination(target: string): string {
  try {
    if (targetOf(target).kind !== 'command') return target
  } catch (thrown) {
    if (!(thrown instanceof OperatorError)) throw thrown
  }
  throw refuseAttribute('invalid', 'backup_destination', 'The destination must be an absolute path or an s3:// URL.')
}

const rowOf = (id: string, { config }: ApiDeps) => ({ key: 0, id, hostname: config.hostname })

export const serverSettings = definer<ApiDeps & SettingsParts>()('server-settings', {
  table: 'users',
  called: 'ServerSettings',
  about: 'Settings of the configuration file that the console can change. For operators who are signed in to it.',
  extension: true,
  find: (id, parts) => (id === 'server' ? rowOf(id, parts) : undefined),
  attributes: {
    hostname: field(
      z
        .string()
        .toLowerCase()
        .regex(/^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+$/, {
          error: 'must be a fully qualified DNS name, such as mx.example.org',
        }),
      { update: true, about: 'DNS name of this server.' },
    ),
    acme_email: field(z.union([z.literal(''), z.email({ error: 'must be an email address' })]), {
      update: true,
      read: 'never',
      about:
        'Contact address for the CA, or an empty string. Enables automatic certificates, and accepts the terms of service of the CA.',
    }),
    backup_destination: field(z.string().min(1).max(500), {
      update: true,
      read: 'never',
      about: 'A further destination of automatic backups: an absolute path or an s3:// URL.',
    }),
  },
  actions: [
    {
      kind: 'show',
      path: '/server/settings/:settings',
      scope: 'tokens:write',
      operator: true,
      person: true,
      about: 'Get the settings that the console can change.',
    },
    {
      kind: 'update',
      path: '/server/settings/:settings',
      scope: 'tokens:write',
      operator: true,
      person: true,
      about: 'Change settings in the configuration file, and apply it.',
      async run({ attributes, parts, row }) {
        await parts.settings.change(changesOf(attributes, parts.config.backup.to))
        return { row: rowOf(String(row.id), parts) }
      },
    },
  ],
})
