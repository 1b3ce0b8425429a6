// `postrider domain …`: sending domains, their DNS records and their keys.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { checkDomain } from '../domains/check.ts'
import { publishedKeys } from '../domains/keys.ts'
import type { AdvisedRecord } from '../domains/advised.ts'
import { followConfig } from '../domains/issue.ts'
import { isOfHost, recordsOf, type DnsRecord } from '../domains/records.ts'
import { domainByKey, listDomains, type Domain } from '../domains/find.ts'
import { changeDomain, registerDomain, removeDomain, resumeDomain } from '../domains/lifecycle.ts'
import { warnedDomains } from '../outbound/reputation/agents.ts'
import { inheritSuppressions } from '../outbound/suppressions/suppressions.ts'
import { requireUser } from '../accounts/users.ts'
import { closeInboxes } from '../inbound/inboxes.ts'
import { advisedFor, policyCommands, zoneLine } from './domain-policies.ts'
import { theDomain, whose, type Whose } from './whose.ts'
import { withDeps, type Deps, type Invocation } from './open.ts'
import { answer, table } from './terminal.ts'

const show = (domain: Domain) => ({
  id: domain.id,
  name: domain.name,
  purpose: domain.purpose,
  region: domain.region,
  mail_from_prefix: domain.mail_from_prefix,
  tls_policy: domain.tls_policy,
  open_tracking_enabled: domain.open_tracking_enabled === 1,
  click_tracking_enabled: domain.click_tracking_enabled === 1,
  tracking_redirect_mode: domain.tracking_redirect_mode,
  status: domain.status,
  checked_at: domain.checked_at === null ? null : iso(domain.checked_at),
  next_check_at: domain.next_check_at === null ? null : iso(domain.next_check_at),
  created_at: iso(domain.created_at),
  updated_at: iso(domain.updated_at),
})

const showRecord = ({ record_type, name, value, ttl, required, verified, observed }: DnsRecord) => ({
  record_type,
  name,
  value,
  ttl,
  required: required === 1,
  verified: verified === 1,
  observed,
})

/** Records as lines of a zone file; long texts are split into strings of at most 255 octets (RFC 1035 §3.3). */
export function zoneFile(records: readonly Pick<DnsRecord, 'record_type' | 'name' | 'value' | 'ttl'>[]): string {
  return records
    .map(({ record_type, name, value, ttl }) => {
      const text = (value.match(/.{1,255}/gs) ?? ['']).map((part) => `"${part.replace(/[\\"]/g, '\\$&')}"`).join(' ')
      const [type, data] =
        record_type === 'MAIL_FROM_MX' || record_type === 'INBOUND_MX'
          ? ['MX', `${value}.`]
          : record_type === 'TRACKING'
            ? ['CNAME', `${value}.`]
            : ['TXT', text]
      return `${name}. ${ttl} IN ${type} ${data}`
    })
    .join('\n')
}

/** The records with their state, and as zone lines to paste. */
export function recordsText(records: readonly DnsRecord[], advised: readonly AdvisedRecord[] = []): string {
  const rows = [
    ...records.map((record) => ({
      ...record,
      state: record.verified ? 'ok' : record.required ? 'missing' : record.observed === null ? 'advised' : 'to change',
    })),
    ...advised.map((record) => ({
      ...record,
      state: record.observed === null ? 'advised' : record.observed === record.value ? 'ok' : 'to change',
    })),
  ].map(({ name, record_type, state, value }) => [
    state,
    record_type,
    name,
    value.length > 60 ? `${value.slice(0, 57)}…` : value,
  ])
  return `${table(['STATE', 'RECORD', 'NAME', 'VALUE'], rows)}\n\nAs lines of a zone file:\n\n${zoneText(records, advised)}\n`
}

const zoneText = (records: readonly DnsRecord[], advised: readonly AdvisedRecord[]): string =>
  [zoneFile(records), ...advised.map(zoneLine)].join('\n')

/** Sentences about published records that name another host. */
export function elsewhere(records: readonly DnsRecord[]): string[] {
  return records
    .filter(({ observed, record_type, verified }) => verified === 0 && observed !== null && isOfHost({ record_type }))
    .map(
      ({ name, observed, record_type, value }) =>
        `The ${record_type === 'SPF' ? 'SPF' : 'MX'} record at ${name} names another host: it says "${observed!.replaceAll('\n', '; ')}" and should say "${value}".`,
    )
}

export function domainCommand(program: Command, invocation: () => Invocation): void {
  const domain = program.command('domain').description('register, check and rotate sending domains')
  const terminal = () => invocation().terminal
  const withDomain = (
    name: string,
    which: Whose,
    work: (deps: Deps, found: Domain & { email: string }) => Promise<void> | void,
  ) => withDeps(invocation(), (deps) => work(deps, theDomain(deps.store, name, which)))
  const one = (usage: string, about: string) => whose(domain.command(usage).description(about))

  domain
    .command('add <name>')
    .description('register a domain; prints the DNS records to publish')
    .requiredOption('--user <email>', 'whose domain')
    .addOption(
      new Option('--purpose <purpose>', 'what it is used for')
        .choices(['transactional', 'marketing', 'both'])
        .default('both'),
    )
    .option('--region <region>', 'one of the configured regions')
    .option('--mail-from-prefix <label>', 'label of the return path below the domain')
    .addOption(new Option('--tls-policy <policy>', 'whether TLS is a must').choices(['Require', 'Optional']))
    .action(
      (
        name: string,
        options: {
          user: string
          purpose: Domain['purpose']
          region?: string
          mailFromPrefix?: string
          tlsPolicy?: Domain['tls_policy']
        },
      ) =>
        withDeps(invocation(), async (deps) => {
          const { mailFromPrefix } = options
          if (mailFromPrefix !== undefined && !/^(?!-)[a-z0-9-]{1,63}(?<!-)$/.test(mailFromPrefix))
            throw new OperatorError(`"${mailFromPrefix}" is not one lower-case DNS label such as "bounce".`)
          const { key } = requireUser(deps.store, options.user)
          const added = await registerDomain({ ...deps, registered: inheritSuppressions }, key, {
            name,
            purpose: options.purpose,
            region: options.region,
            mail_from_prefix: mailFromPrefix,
            tls_policy: options.tlsPolicy,
          })
          answer(
            terminal(),
            show(added),
            () =>
              `Registered ${added.name}. Publish these records:\n\n${recordsText(recordsOf(deps.store, added.key))}`,
          )
        }),
    )
  domain
    .command('list')
    .description('list all domains')
    .action(() =>
      withDeps(invocation(), ({ store }) => {
        const warned = warnedDomains(store)
        answer(
          terminal(),
          listDomains(store).map((row) => ({
            ...show(row),
            reputation: warned.has(row.key) ? 'warned' : 'good',
            user: row.email,
          })),
          (list) =>
            table(
              ['NAME', 'STATUS', 'REPUTATION', 'PURPOSE', 'REGION', 'USER', 'CHECKED'],
              list.map((row) => [
                row.name,
                row.status,
                row.reputation,
                row.purpose,
                row.region,
                row.user,
                row.checked_at,
              ]),
            ),
        )
      }),
    )
  one('records <name>', 'show the DNS records of a domain, also as a zone file').action((name: string, which: Whose) =>
    withDomain(name, which, async (deps, found) => {
      await followConfig(deps)
      const { store } = deps
      const records = recordsOf(store, found.key)
      const advised = await advisedFor(deps, found)
      const zone = zoneText(records, advised)
      answer(
        terminal(),
        {
          records: [
            ...records.map(showRecord),
            ...advised.map((each) => ({ ...each, required: false, verified: false })),
          ],
          zone,
        },
        () => recordsText(records, advised),
      )
    }),
  )
  one('show <name>', 'one domain with its records, keys and what stands in its way').action(
    (name: string, which: Whose) =>
      withDomain(name, which, async (deps, found) => {
        await followConfig(deps)
        const records = recordsOf(deps.store, found.key)
        const keys = publishedKeys(deps.store, found.key).map(({ role, selector }) => ({ role, selector }))
        answer(terminal(), { ...show(found), user: found.email, keys, records: records.map(showRecord) }, (shown) =>
          [
            `${shown.name} of ${shown.user} is ${shown.status}; checked ${shown.checked_at ?? 'never'}.`,
            ...keys.map(({ role, selector }) => `DKIM key (${role}): ${selector}`),
            ...elsewhere(records),
            '',
            recordsText(records),
          ].join('\n'),
        )
      }),
  )
  one('check <name>', 'ask DNS now').action((name: string, which: Whose) =>
    withDomain(name, which, async (deps, found) => {
      await followConfig(deps)
      const checked = (await checkDomain(deps, found.key)) ?? found
      const records = recordsOf(deps.store, found.key)
      answer(terminal(), { ...show(checked), records: records.map(showRecord) }, () =>
        [`${checked.name} is ${checked.status}.`, ...elsewhere(records), '', recordsText(records)].join('\n'),
      )
    }),
  )
  one('rotate-dkim <name>', 'promote the standby DKIM key and make a new one').action((name: string, which: Whose) =>
    withDomain(name, which, async (deps, found) => {
      const rotated = await changeDomain(deps, found.key, { rotate_dkim_key: true })
      answer(
        terminal(),
        show(rotated),
        () => `Rotated. Publish what is new:\n\n${recordsText(recordsOf(deps.store, found.key))}`,
      )
    }),
  )
  one('resume <name>', 'bring a suspended domain back into verification').action((name: string, which: Whose) =>
    withDomain(name, which, async (deps, found) => {
      if (!(await resumeDomain(deps, found)))
        throw new OperatorError(`${found.name} is ${found.status}; only a suspended domain is resumed.`)
      answer(terminal(), show(domainByKey(deps.store, found.key)!), (shown) => `${shown.name} is ${shown.status}.`)
    }),
  )
  policyCommands(one, invocation, withDomain)
  one('remove <name>', 'remove a domain; its DKIM keys are erased after 7 days').action((name: string, which: Whose) =>
    withDomain(name, which, async (deps, found) => {
      await removeDomain(deps, found.key)
      await closeInboxes(deps, found.key)
      answer(terminal(), { id: found.id, name: found.name, removed: true }, () => `Removed ${found.name}.`)
    }),
  )
}
