// `postrider domain …`: sending domains, their DNS records and their keys.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { checkDomain } from '../domains/check.ts'
import { recordsOf, type DnsRecord } from '../domains/records.ts'
import {
  changeDomain,
  domainByKey,
  listDomains,
  registerDomain,
  removeDomain,
  resumeDomain,
  type Domain,
} from '../domains/register.ts'
import { warnedDomains } from '../outbound/agents.ts'
import { inheritSuppressions } from '../outbound/suppressions.ts'
import { requireUser } from '../accounts/users.ts'
import { closeInboxes } from '../inbound/inboxes.ts'
import type { Reader } from '../store/database.ts'
import { withDesk, type Desk, type Invocation } from './open.ts'
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

/** Which of several domains of one name is meant. */
export interface Whose {
  user?: string
  region?: string
}

/** The options that tell them apart. */
export const whose = (command: Command): Command =>
  command
    .option('--user <email>', 'whose domain, if several have it')
    .option('--region <region>', 'the one of this region, if it is registered in several')

/** The domain of that name; `Whose` tells apart several. Throws an OperatorError. */
export function theDomain(reader: Reader, name: string, { region, user }: Whose): Domain & { email: string } {
  const found = listDomains(reader, name).filter(
    (each) =>
      (user === undefined || each.email.toLowerCase() === user.toLowerCase()) &&
      (region === undefined || each.region === region),
  )
  if (found.length === 0) throw new OperatorError(`There is no domain ${name}; "postrider domain list" shows all.`)
  if (found.length > 1)
    throw new OperatorError(
      `${name} is registered ${found.length} times; say which with --user and --region (${found
        .map(({ email, region: of }) => `${email} ${of}`)
        .join(', ')}).`,
    )
  return found[0]!
}

/** Records as lines of a zone file; long texts split into strings of at most 255 octets (RFC 1035 §3.3). */
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

/** The records with their state, and as a snippet to paste. */
export function recordsText(records: readonly DnsRecord[]): string {
  const rows = records.map((record) => [
    record.verified ? 'ok' : record.required ? 'missing' : 'advised',
    record.record_type,
    record.name,
    record.value.length > 60 ? `${record.value.slice(0, 57)}…` : record.value,
  ])
  return `${table(['STATE', 'RECORD', 'NAME', 'VALUE'], rows)}\n\nAs lines of a zone file:\n\n${zoneFile(records)}\n`
}

export function domainCommand(program: Command, invocation: () => Invocation): void {
  const domain = program.command('domain').description('register, check and rotate sending domains')
  const terminal = () => invocation().terminal
  const withDomain = (name: string, which: Whose, work: (desk: Desk, found: Domain) => Promise<void> | void) =>
    withDesk(invocation(), (desk) => work(desk, theDomain(desk.store, name, which)))
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
        withDesk(invocation(), async (desk) => {
          const { mailFromPrefix } = options
          if (mailFromPrefix !== undefined && !/^(?!-)[a-z0-9-]{1,63}(?<!-)$/.test(mailFromPrefix))
            throw new OperatorError(`"${mailFromPrefix}" is not one lower-case DNS label such as "bounce".`)
          const { key } = requireUser(desk.store, options.user)
          const added = await registerDomain({ ...desk, registered: inheritSuppressions }, key, {
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
              `Registered ${added.name}. Publish these records:\n\n${recordsText(recordsOf(desk.store, added.key))}`,
          )
        }),
    )
  domain
    .command('list')
    .description('list all domains')
    .action(() =>
      withDesk(invocation(), ({ store }) => {
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
    withDomain(name, which, ({ store }, found) => {
      const records = recordsOf(store, found.key)
      answer(terminal(), { records: records.map(showRecord), zone: zoneFile(records) }, () => recordsText(records))
    }),
  )
  one('check <name>', 'ask DNS now').action((name: string, which: Whose) =>
    withDomain(name, which, async (desk, found) => {
      const checked = (await checkDomain(desk, found.key)) ?? found
      const records = recordsOf(desk.store, found.key)
      answer(
        terminal(),
        { ...show(checked), records: records.map(showRecord) },
        () => `${checked.name} is ${checked.status}.\n\n${recordsText(records)}`,
      )
    }),
  )
  one('rotate-dkim <name>', 'promote the standby DKIM key and make a new one').action((name: string, which: Whose) =>
    withDomain(name, which, async (desk, found) => {
      const rotated = await changeDomain(desk, found.key, { rotate_dkim_key: true })
      answer(
        terminal(),
        show(rotated),
        () => `Rotated. Publish what is new:\n\n${recordsText(recordsOf(desk.store, found.key))}`,
      )
    }),
  )
  one('resume <name>', 'bring a suspended domain back into verification').action((name: string, which: Whose) =>
    withDomain(name, which, async (desk, found) => {
      if (!(await resumeDomain(desk, found)))
        throw new OperatorError(`${found.name} is ${found.status}; only a suspended domain is resumed.`)
      answer(terminal(), show(domainByKey(desk.store, found.key)!), (shown) => `${shown.name} is ${shown.status}.`)
    }),
  )
  one('remove <name>', 'remove a domain; its DKIM keys are erased after 7 days').action((name: string, which: Whose) =>
    withDomain(name, which, async (desk, found) => {
      await removeDomain(desk, found.key)
      await closeInboxes(desk, found.key)
      answer(terminal(), { id: found.id, name: found.name, removed: true }, () => `Removed ${found.name}.`)
    }),
  )
}
