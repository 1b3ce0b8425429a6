// Sending domains and their DNS records.
import { z } from 'zod'
import { DOMAIN_STATUSES } from '../store/states/domain.ts'
import { definer, field, parentOf } from '../jsonapi/resource.ts'
import { changeDomain, registerDomain, removeDomain, type DomainFollowers, type RegisterDeps } from './lifecycle.ts'
import { findOwned } from '../store/list.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import type { Domain } from './find.ts'
import { conflictOf, type DnsRecord } from './records.ts'
import { line } from '../jsonapi/schemas.ts'
import { valuesOf } from '../store/schema/tables.ts'
import { count, words, wordsOrNull } from '../jsonapi/fields.ts'
import { type AdvisedRecord, ADVISED_KINDS, ADVISED_STATES, ADVISED_TYPES } from './advised-record.ts'

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
  path: '/domains/:domain',
  scope: 'domains',
  only: 'deleted_at is null',
  about: 'Sending domains. A domain must be active before emails are sent from it.',
  attributes: {
    name: field(line(253), {
      create: 'required',
      sort: true,
      about: 'Fully qualified domain name, stored as lower-case A-labels.',
      example: 'example.org',
    }),
    purpose: field(z.enum(valuesOf('domains', 'purpose'), { error: 'must be one of transactional, marketing, both' }), {
      create: 'required',
      about: 'Kind of email that the domain is used for.',
    }),
    region: field(line(32), {
      create: 'optional',
      about: 'One of the regions of this server. The first one if absent.',
      example: 'default',
    }),
    mail_from_prefix: field(label, {
      create: 'optional',
      update: true,
      answer: z.string(),
      about: 'Label of the return path below the domain. If you change it, publish the new MX and SPF records.',
      example: 'bounce',
    }),
    tls_policy: field(z.enum(valuesOf('domains', 'tls_policy'), { error: 'must be Require or Optional' }), {
      create: 'optional',
      update: true,
      about:
        'TLS policy for delivery. `Require`: emails are delivered over TLS only. `Optional`: over TLS if the receiving server offers it.',
    }),
    rotate_dkim_key: field(onOff, {
      update: true,
      read: 'never',
      about: 'Whether to rotate the DKIM key. True activates the standby selector and creates a new one.',
    }),
    open_tracking_enabled: field(onOff, {
      update: true,
      kind: 'flag',
      about: 'Whether opens are tracked, unless an email sets it.',
    }),
    click_tracking_enabled: field(onOff, {
      update: true,
      kind: 'flag',
      about: 'Whether clicks are tracked, unless an email sets it.',
    }),
    tracking_redirect_mode: field(
      z.enum(valuesOf('domains', 'tracking_redirect_mode'), { error: 'must be shared or branded' }),
      {
        update: true,
        about:
          'Host name of tracked links. `shared`: the host name of this server. `branded`: links.<domain>, which requires a plan with branded tracking.',
      },
    ),
    status: field(z.enum(DOMAIN_STATUSES), { sort: true, about: 'Verification status.' }),
    checked_at: timeOrNull('Time of the last DNS check. Null before the first.'),
    created_at: { ...time('Time when the domain was created.'), sort: true },
    updated_at: { ...time('Time of the last change.'), sort: true },
  },
  filters: { status: { column: 'status' }, purpose: { column: 'purpose' }, name: { column: 'name' } },
  actions: [
    {
      kind: 'create',
      refuses: ['already_exists'],
      about: 'Create a domain. Its DNS records are generated immediately.',
      run: async ({ parts, caller, attributes }) => ({
        row: { ...(await registerDomain(depsOf(parts), caller.userKey, attributes)) },
      }),
    },
    { kind: 'list', about: 'List domains.' },
    { kind: 'show', about: 'Get a domain.' },
    {
      kind: 'update',
      refuses: ['plan_required'],
      about: 'Update a domain, or rotate its DKIM key.',
      run: async ({ parts, row, attributes }) => ({
        row: { ...(await changeDomain(depsOf(parts), row.key, attributes)) },
      }),
    },
    {
      kind: 'act',
      path: 'check',
      id: 'checkDomain',
      about: 'Check the DNS records of a domain now.',
      extension: true,
      run: async ({ caller, parts, row }) => {
        await parts.operations.check(row.key)
        return { row: findOwned(parts.store, 'domains', caller.userKey, row.id) ?? row }
      },
    },
    {
      kind: 'delete',
      refuses: ['teardown_failed'],
      about: 'Delete a domain. Sending stops immediately. The DKIM key is erased after 7 days.',
      run: ({ parts, row }) => removeDomain(depsOf(parts), row.key),
    },
  ],
})

/** Members who may not see domains choose the sender of their campaigns from these. */
export const senderDomains = define('sender-domains', {
  table: 'domains',
  only: 'deleted_at is null',
  about: 'Names of the sending domains.',
  extension: true,
  attributes: {
    name: field(z.string(), { sort: true, about: 'Domain name.', example: 'example.org' }),
    status: field(z.enum(DOMAIN_STATUSES), { about: 'Status of the domain.' }),
  },
  filters: { status: { column: 'status' } },
  actions: [
    { kind: 'list', path: '/sender-domains', scope: 'campaigns:read', about: 'List the names of sending domains.' },
  ],
})

export const records = define('records', {
  table: 'records',
  scope: 'domains',
  called: 'DnsRecord',
  about: 'DNS records that a sending domain needs.',
  attributes: {
    record_type: field(z.enum(valuesOf('records', 'record_type')), {
      about: 'Purpose of the record.',
    }),
    name: field(z.string(), { sort: true, about: 'Name of the record.', example: 'bounce.example.org' }),
    value: field(z.string(), { about: 'Value to publish.', example: 'v=spf1 a:mx.example.org -all' }),
    ttl: field(z.int(), { about: 'Suggested TTL in seconds.', example: 3600 }),
    required: field(z.boolean(), { kind: 'flag', about: 'Whether the domain needs the record to become active.' }),
    verified: field(z.boolean(), { kind: 'flag', about: 'Whether the record was correct when DNS last answered.' }),
    observed: field(z.string().nullable(), { about: 'Value that DNS last returned. Null if absent.' }),
    conflict: field(z.string().nullable(), {
      about: 'What to do about several records at this name, of which only one is allowed. Null without a conflict.',
    }),
    missing_address: field(z.boolean(), {
      kind: 'flag',
      about:
        'For SPF and MX: whether DNS has the record, but no address record for the host name in it. The record is then not verified.',
    }),
    checked_at: timeOrNull(
      'Time when DNS last answered. If it is earlier than `checked_at` of the domain, DNS did not answer at the last check. Null if it never answered.',
    ),
    certificate_until: timeOrNull(
      'For TRACKING: the time until which links in emails use this name. Null if this server has no valid certificate for it. Links then use the host name of the server.',
    ),
    created_at: { ...time('Time when the record was generated.'), sort: true },
    updated_at: { ...time('Time of the last change.'), sort: true },
  },
  relationships: { domain: { type: 'domains', column: 'domain_key' } },
  filters: { verified: { column: 'verified', flag: true }, record_type: { column: 'record_type' } },
  extend(rows) {
    for (const row of rows) row['conflict'] = conflictOf(row as unknown as DnsRecord)
  },
  actions: [
    {
      kind: 'list',
      path: '/domains/:domain/records',
      id: 'listDomainRecords',
      within: { type: 'domains', column: 'domain_key' },
      about: 'List the DNS records of a domain.',
    },
  ],
})

// DNS records that are not required, but make a domain's mail safer, and that mail graders check (D78).

export const advisedRecords = definer<ApiDeps & DomainParts>()('advised-records', {
  table: 'records',
  scope: 'domains',
  called: 'AdvisedRecord',
  about: 'Recommended DNS records for a domain and for this server.',
  extension: true,
  attributes: {
    record_type: field(z.enum(ADVISED_KINDS), {
      about: 'Purpose of the record. HOST_ADDRESS and REVERSE belong to this server, and all its domains need them.',
    }),
    name: words('Name of the record.'),
    dns_type: field(z.enum(ADVISED_TYPES), { about: 'Record type.' }),
    value: words('Recommended value.'),
    ttl: count('Suggested TTL in seconds.'),
    observed: wordsOrNull('Present value in DNS. Null if it was not looked up or does not exist.'),
    answered: field(z.boolean(), {
      about: 'Whether DNS answered. If false, another record may exist at this name.',
    }),
    state: field(z.enum(ADVISED_STATES), { about: 'Result of comparing DNS with the recommended value.' }),
    required: field(z.literal(false), {
      about:
        'Always false: the record is not needed for verification. Without HOST_ADDRESS, however, SPF and MX are not verified.',
    }),
  },
  actions: [
    {
      kind: 'view',
      path: '/domains/:domain/advised-records',
      within: { type: 'domains', column: 'domain_key' },
      params: ['page'],
      id: 'listAdvisedRecords',
      about: 'List recommended DNS records for a domain.',
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
