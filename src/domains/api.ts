// Sending domains and their DNS records.
import { z } from 'zod'
import { DOMAIN_STATUSES } from '../states/domain.ts'
import { definer, field } from '../jsonapi/resource.ts'
import { changeDomain, registerDomain, removeDomain, type DomainFollowers, type RegisterDeps } from './lifecycle.ts'
import { findOwned } from '../store/list.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import type { AdvisedRecord } from './advised.ts'
import type { Domain } from './find.ts'
import { EXTENSION } from '../jsonapi/fields.ts'
import { line } from '../jsonapi/schemas.ts'
import { valuesOf } from '../schema/tables.ts'

export interface DomainParts {
  followers: DomainFollowers
  /** Questions about a domain that need the whole running process. */
  operations: {
    /** The records that are advised for a domain on this machine at this time. */
    advised(domain: Domain): Promise<AdvisedRecord[]>
    /** Queries the DNS of a domain now. */
    check(domainKey: number): Promise<unknown>
  }
}

const depsOf = ({ bells, ...parts }: ApiDeps & DomainParts): RegisterDeps => ({ ...parts, ring: bells.domains })

const label = z
  .string('must be a string')
  .meta({ maxLength: 63 })
  .transform((text) => text.toLowerCase())
  .refine((text) => /^(?!-)[a-z0-9-]{1,63}(?<!-)$/.test(text), 'must be one DNS label such as "bounce"')
const onOff = z.boolean('must be true or false')
const time = (about: string) => field(z.iso.datetime(), { kind: 'time', about })
const timeOrNull = (about: string) => field(z.iso.datetime().nullable(), { kind: 'time', about })

export const domains = definer<ApiDeps & DomainParts>()('domains', {
  table: 'domains',
  only: 'deleted_at is null',
  about: 'Sending domains. A domain must be active before mail is sent from it.',
  attributes: {
    name: field(line(253), {
      create: 'required',
      sort: true,
      about: 'Fully qualified domain name, kept as lower-case A-labels.',
      example: 'example.org',
    }),
    purpose: field(z.enum(valuesOf('domains', 'purpose'), { error: 'must be one of transactional, marketing, both' }), {
      create: 'required',
      about: 'What the domain is used for.',
    }),
    region: field(line(32), {
      create: 'optional',
      about: 'One of the regions of this server; the first when absent.',
      example: 'default',
    }),
    mail_from_prefix: field(label, {
      create: 'optional',
      update: true,
      answer: z.string(),
      about: 'The label of the return path below the domain. Changing it re-issues the MX and SPF records.',
      example: 'bounce',
    }),
    tls_policy: field(z.enum(valuesOf('domains', 'tls_policy'), { error: 'must be Require or Optional' }), {
      create: 'optional',
      update: true,
      about: 'Require: mail leaves over TLS or not at all. Optional: TLS where the exchanger offers it.',
    }),
    rotate_dkim_key: field(onOff, {
      update: true,
      read: 'never',
      about: 'True promotes the standby selector and makes a new one.',
    }),
    open_tracking_enabled: field(onOff, {
      update: true,
      kind: 'flag',
      about: 'Whether opens are tracked unless a mail says otherwise.',
    }),
    click_tracking_enabled: field(onOff, {
      update: true,
      kind: 'flag',
      about: 'Whether clicks are tracked unless a mail says otherwise.',
    }),
    tracking_redirect_mode: field(
      z.enum(valuesOf('domains', 'tracking_redirect_mode'), { error: 'must be shared or branded' }),
      {
        update: true,
        about:
          'Whose host tracked links lead over: this server’s, or links.<domain> (needs a plan with branded tracking).',
      },
    ),
    status: field(z.enum(DOMAIN_STATUSES), { sort: true, about: 'The state of the verification.' }),
    checked_at: timeOrNull('When DNS was last asked.'),
    created_at: { ...time('When it was registered.'), sort: true },
    updated_at: { ...time('When it last changed.'), sort: true },
  },
  filters: { status: { column: 'status' }, purpose: { column: 'purpose' }, name: { column: 'name' } },
  actions: [
    {
      kind: 'create',
      path: '/domains',
      scope: 'domains:write',
      refuses: ['already_exists'],
      about: 'Register a domain; its DNS records are generated at once.',
      run: async ({ parts, caller, attributes }) => ({
        row: { ...(await registerDomain(depsOf(parts), caller.userKey, attributes)) },
      }),
    },
    {
      kind: 'list',
      path: '/domains',
      scope: 'domains:read',
      params: ['filter', 'sort', 'include', 'fields', 'page'],
      about: 'List your domains.',
    },
    { kind: 'show', path: '/domains/:domain', scope: 'domains:read', about: 'Show a domain.' },
    {
      kind: 'update',
      path: '/domains/:domain',
      scope: 'domains:write',
      refuses: ['plan_required'],
      about: 'Change a domain or rotate its DKIM key.',
      run: async ({ parts, row, attributes }) => ({
        row: { ...(await changeDomain(depsOf(parts), row.key, attributes)) },
      }),
    },
    {
      kind: 'act',
      path: '/domains/:domain/check',
      id: 'checkDomain',
      scope: 'domains:write',
      about: `Look at the domain’s DNS now. ${EXTENSION}`,
      run: async ({ caller, parts, row }) => {
        await parts.operations.check(row.key)
        return { row: findOwned(parts.store, 'domains', caller.userKey, row.id) ?? row }
      },
    },
    {
      kind: 'delete',
      path: '/domains/:domain',
      scope: 'domains:write',
      refuses: ['teardown_failed'],
      about: 'Remove a domain; sending stops at once, the DKIM key is erased after 7 days.',
      run: ({ parts, row }) => removeDomain(depsOf(parts), row.key),
    },
  ],
})

export const records = define('records', {
  table: 'records',
  called: 'DnsRecord',
  about: 'The DNS records that a sending domain needs.',
  attributes: {
    record_type: field(z.enum(valuesOf('records', 'record_type')), {
      about: 'What the record is for.',
    }),
    name: field(z.string(), { sort: true, about: 'Where it stands in DNS.', example: 'bounce.example.org' }),
    value: field(z.string(), { about: 'What it must say.', example: 'v=spf1 a:mx.example.org -all' }),
    ttl: field(z.int(), { about: 'Suggested time to live in seconds.', example: 3600 }),
    required: field(z.boolean(), { kind: 'flag', about: 'Whether the domain needs it to become active.' }),
    verified: field(z.boolean(), { kind: 'flag', about: 'Whether DNS showed it when it last answered.' }),
    observed: field(z.string().nullable(), { about: 'The last answer of DNS.' }),
    checked_at: timeOrNull(
      'When DNS last answered; when it is earlier than the domain’s own time, DNS did not answer at the last check.',
    ),
    created_at: { ...time('When it was issued.'), sort: true },
    updated_at: { ...time('When it last changed.'), sort: true },
  },
  relationships: { domain: { type: 'domains', column: 'domain_key' } },
  filters: { verified: { column: 'verified', flag: true }, record_type: { column: 'record_type' } },
  actions: [
    {
      kind: 'list',
      path: '/domains/:domain/records',
      scope: 'domains:read',
      params: ['filter', 'sort', 'include', 'fields', 'page'],
      id: 'listDomainRecords',
      within: { type: 'domains', column: 'domain_key' },
      about: 'List the DNS records of a domain.',
    },
  ],
})
