// `postrider domain …`: sending domains, their DNS records and their keys.
import { Option, type Command } from 'commander'
import { must, OperatorError } from '../base/errors.ts'
import { checkDomain } from './check.ts'
import { publishedKeys } from './keys.ts'
import { followConfig } from './issue.ts'
import { recordsOf } from './records.ts'
import { domainByKey, listDomains, warnedDomains, type Domain } from './find.ts'
import { changeDomain, registerDomain, removeDomain, resumeDomain, type DomainFollowers } from './lifecycle.ts'
import { requireUser } from '../identity/users.ts'
import { advisedFor, policyCommands } from './command-policies.ts'
import {
  elsewhere,
  recordsText,
  shownDomain,
  shownRecords,
  unanswered,
  zoneText,
  type DomainRecords,
} from './command-text.ts'
import { asks, confirm, type Sure } from '../commands/confirm.ts'
import { theDomain, whose, type Whose } from './find-domain.ts'
import { withDeps, type Deps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'

/** The shared arguments of the functions that make the commands. */
interface Making {
  domain: Command
  followers: DomainFollowers
  invocation: () => Invocation
  /** Makes a command for one domain; its first argument is the domain's name. */
  one: (usage: string, about: string) => Command
  withDomain: (
    name: string,
    which: Whose,
    work: (deps: Deps, found: Domain & { email: string }) => Promise<void> | void,
  ) => Promise<void>
}

export function domainCommand(program: Command, invocation: () => Invocation, followers: DomainFollowers): void {
  const domain = program.command('domain').description('register, check and rotate sending domains')
  const making: Making = {
    domain,
    followers,
    invocation,
    one: (usage, about) => whose(domain.command(usage).description(about)),
    withDomain: (name, which, work) => withDeps(invocation(), (deps) => work(deps, theDomain(deps.store, name, which))),
  }
  addDomain(making)
  listAll(making)
  showRecords(making)
  showDomain(making)
  checkNow(making)
  rotate(making)
  resume(making)
  policyCommands(making.one, invocation, making.withDomain)
  remove(making)
}

function addDomain({ domain, followers, invocation }: Making): void {
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
          const added = await registerDomain({ ...deps, followers }, key, {
            name,
            purpose: options.purpose,
            region: options.region,
            mail_from_prefix: mailFromPrefix,
            tls_policy: options.tlsPolicy,
          })
          const all = await recordsFor(deps, { ...added, email: options.user })
          answer(
            invocation().terminal,
            { ...shownDomain(added), records: shownRecords(all), zone: zoneText(all) },
            () => `Registered ${added.name}. Publish these records.\n\n${recordsText(all)}`,
          )
        }),
    )
}

/** All records that a domain should have; every command shows the same ones. */
async function recordsFor(deps: Deps, domain: Domain & { email: string }): Promise<DomainRecords> {
  return {
    domain,
    records: recordsOf(deps.store, domain.key),
    advised: await advisedFor(deps, domain, { makes: false }),
  }
}

function listAll({ domain, invocation }: Making): void {
  domain
    .command('list')
    .description('list all domains')
    .action(() =>
      withDeps(invocation(), ({ store }) => {
        const warned = warnedDomains(store)
        answer(
          invocation().terminal,
          listDomains(store).map((row) => ({
            ...shownDomain(row),
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
}

function showRecords({ invocation, one, withDomain }: Making): void {
  one('records <name>', 'show the DNS records of a domain, also as a zone file').action((name: string, which: Whose) =>
    withDomain(name, which, async (deps, found) => {
      await followConfig(deps)
      const all = await recordsFor(deps, found)
      answer(invocation().terminal, { records: shownRecords(all), zone: zoneText(all) }, () =>
        [...unanswered(all), recordsText(all)].join('\n\n'),
      )
    }),
  )
}

function showDomain({ invocation, one, withDomain }: Making): void {
  one('show <name>', 'one domain with its records, its keys and what prevents sending').action(
    (name: string, which: Whose) =>
      withDomain(name, which, async (deps, found) => {
        await followConfig(deps)
        const all = await recordsFor(deps, found)
        const keys = publishedKeys(deps.store, found.key).map(({ role, selector }) => ({ role, selector }))
        answer(
          invocation().terminal,
          { ...shownDomain(found), user: found.email, keys, records: shownRecords(all) },
          (shown) =>
            [
              `${shown.name} of ${shown.user} is ${shown.status}; checked ${shown.checked_at ?? 'never'}.`,
              ...keys.map(({ role, selector }) => `DKIM key (${role}): ${selector}`),
              ...unanswered(all),
              ...elsewhere(all.records),
              '',
              recordsText(all),
            ].join('\n'),
        )
      }),
  )
}

function checkNow({ invocation, one, withDomain }: Making): void {
  one('check <name>', 'ask DNS now').action((name: string, which: Whose) =>
    withDomain(name, which, async (deps, found) => {
      await followConfig(deps)
      const checked = (await checkDomain(deps, found.key)) ?? found
      const all = await recordsFor(deps, { ...found, ...checked })
      answer(invocation().terminal, { ...shownDomain(checked), records: shownRecords(all) }, () =>
        [
          `${checked.name} is ${checked.status}.`,
          ...unanswered(all),
          ...elsewhere(all.records),
          '',
          recordsText(all),
        ].join('\n'),
      )
    }),
  )
}

function rotate({ invocation, one, withDomain }: Making): void {
  one('rotate-dkim <name>', 'promote the standby DKIM key and make a new one').action((name: string, which: Whose) =>
    withDomain(name, which, async (deps, found) => {
      const rotated = await changeDomain(deps, found.key, { rotate_dkim_key: true })
      const all = await recordsFor(deps, { ...found, ...rotated })
      answer(invocation().terminal, shownDomain(rotated), () => `Rotated. Publish what is new.\n\n${recordsText(all)}`)
    }),
  )
}

function resume({ invocation, one, withDomain }: Making): void {
  one('resume <name>', 'bring a suspended domain back into verification').action((name: string, which: Whose) =>
    withDomain(name, which, async (deps, found) => {
      if (!(await resumeDomain(deps, found)))
        throw new OperatorError(`${found.name} is ${found.status}; only a suspended domain is resumed.`)
      answer(
        invocation().terminal,
        shownDomain(must(domainByKey(deps.store, found.key), 'The domain')),
        (shown) => `${shown.name} is ${shown.status}.`,
      )
    }),
  )
}

function remove({ followers, invocation, one, withDomain }: Making): void {
  asks(one('remove <name>', 'remove a domain; its DKIM keys are erased after 7 days')).action(
    (name: string, which: Whose & Sure) =>
      withDomain(name, which, async (deps, found) => {
        await confirm(
          invocation(),
          which,
          `${found.name} of ${found.email} sends nothing more, its inboxes receive nothing more, and its DKIM keys are erased after 7 days.`,
        )
        await removeDomain({ ...deps, followers }, found.key)
        answer(invocation().terminal, { id: found.id, name: found.name, removed: true }, () => `Removed ${found.name}.`)
      }),
  )
}
