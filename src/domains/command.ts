// `postrider domain …`: sending domains, their DNS records and their keys.
import { Option, type Command } from 'commander'
import { must, OperatorError } from '../base/errors.ts'
import { checkDomain } from './check.ts'
import { publishedKeys } from './keys.ts'
import { followConfig } from './issue.ts'
import { dmarcSharedWith, recordsOf } from './records.ts'
import { domainById, domainByKey, listDomains, warnedDomains, type Domain } from './find.ts'
import { resumeDomain, type DomainFollowers } from './lifecycle.ts'
import { requireUser } from '../users/users.ts'
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
import { asks, confirm, type Sure } from '../views/command/confirm.ts'
import { theDomain, whose, type Whose } from './find-domain.ts'
import { withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { answer, answerRows } from '../views/command/terminal.ts'

/** The shared arguments of the functions that make the commands. */
interface Making {
  domain: Command
  followers: DomainFollowers
  invocation: () => Invocation
  /** Creates a command for one domain. Its first argument is the domain's name. */
  one: (usage: string, about: string) => Command
  withDomain: (
    name: string,
    which: Whose,
    work: (deps: Deps, found: Domain & { email: string }) => Promise<void> | void,
  ) => Promise<void>
}

export function domainCommand(program: Command, invocation: () => Invocation, followers: DomainFollowers): void {
  const domain = program.command('domain').description('manage sending domains')
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

/** The API of domains. It is loaded when a command needs it. */
async function domainApi(deps: Deps, followers: DomainFollowers) {
  const [{ apiOf }, { domains }] = await Promise.all([import('../views/command-api.ts'), import('./api.ts')])
  const operations = {
    advised: (domain: Domain) => advisedFor(deps, domain, { makes: false }),
    check: (key: number) => checkDomain(deps, key),
  }
  return { api: apiOf(deps, [domains], { parts: { followers, operations } }), domains }
}

function addDomain({ domain, followers, invocation }: Making): void {
  domain
    .command('add <name>')
    .description('add a domain and print the DNS records to publish')
    .requiredOption('--user <email>', 'owner of the domain')
    .addOption(
      new Option('--purpose <purpose>', 'type of email that the domain sends')
        .choices(['transactional', 'marketing', 'both'])
        .default('both'),
    )
    .option('--region <region>', 'one of the configured regions (default: the first)')
    .option('--mail-from-prefix <label>', 'label of the return path (default: bounce)')
    .addOption(new Option('--tls-policy <policy>', 'TLS for outgoing email').choices(['Require', 'Optional']))
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
          const owner = requireUser(deps.store, options.user)
          const { api, domains } = await domainApi(deps, followers)
          const { mailFromPrefix, purpose, region, tlsPolicy } = options
          const attributes = { name, purpose, region, mail_from_prefix: mailFromPrefix, tls_policy: tlsPolicy }
          const { id } = await api.as(owner).create(domains, attributes, {
            mail_from_prefix: '--mail-from-prefix',
            region: '--region',
          })
          const added = must(domainById(deps.store, id), 'The domain')
          const all = await recordsFor(deps, { ...added, email: options.user })
          answer(
            invocation().terminal,
            { ...shownDomain(added), records: shownRecords(all), zone: zoneText(all) },
            () => `Added ${added.name}. Publish these DNS records.\n\n${recordsText(all)}`,
          )
        }),
    )
}

/** All records that a domain should have. Every command shows the same ones. */
async function recordsFor(deps: Deps, domain: Domain & { email: string }): Promise<DomainRecords> {
  return {
    domain,
    records: recordsOf(deps.store, domain.key),
    dmarcOf: dmarcSharedWith(deps.store, domain),
    advised: await advisedFor(deps, domain, { makes: false }),
  }
}

function listAll({ domain, invocation }: Making): void {
  domain
    .command('list')
    .description('list domains')
    .action(() =>
      withDeps(invocation(), ({ store }) => {
        const warned = warnedDomains(store)
        const all = listDomains(store).map((row) => ({
          ...shownDomain(row),
          reputation: warned.has(row.key) ? 'warned' : 'good',
          user: row.email,
        }))
        answerRows(invocation().terminal, all, {
          NAME: 'name',
          STATUS: 'status',
          REPUTATION: 'reputation',
          PURPOSE: 'purpose',
          REGION: 'region',
          USER: 'user',
          CHECKED: 'checked_at',
        })
      }),
    )
}

function showRecords({ invocation, one, withDomain }: Making): void {
  one('records <name>', 'print the DNS records of a domain, as a table and a zone file').action(
    (name: string, which: Whose) =>
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
  one('show <name>', 'show a domain with its status, keys and DNS records').action((name: string, which: Whose) =>
    withDomain(name, which, async (deps, found) => {
      await followConfig(deps)
      const all = await recordsFor(deps, found)
      const keys = publishedKeys(deps.store, found.key).map(({ role, selector }) => ({ role, selector }))
      answer(
        invocation().terminal,
        { ...shownDomain(found), user: found.email, keys, records: shownRecords(all) },
        (shown) =>
          [
            `${shown.name} of ${shown.user} is ${shown.status} (last check: ${shown.checked_at ?? 'never'}).`,
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
  one('check <name>', 'check the DNS records of a domain now').action((name: string, which: Whose) =>
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

function rotate({ followers, invocation, one, withDomain }: Making): void {
  one('rotate-dkim <name>', 'activate the standby DKIM key and create a new one').action((name: string, which: Whose) =>
    withDomain(name, which, async (deps, found) => {
      const { api, domains } = await domainApi(deps, followers)
      await api.as(requireUser(deps.store, found.email)).update(domains, found.id, { rotate_dkim_key: true })
      const rotated = must(domainByKey(deps.store, found.key), 'The domain')
      const all = await recordsFor(deps, { ...found, ...rotated })
      answer(
        invocation().terminal,
        shownDomain(rotated),
        () => `Rotated the DKIM keys. Publish the new records.\n\n${recordsText(all)}`,
      )
    }),
  )
}

function resume({ invocation, one, withDomain }: Making): void {
  one('resume <name>', 'verify a suspended domain again').action((name: string, which: Whose) =>
    withDomain(name, which, async (deps, found) => {
      if (!(await resumeDomain(deps, found)))
        throw new OperatorError(`${found.name} is ${found.status}; only a suspended domain can be resumed.`)
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
          `${found.name} of ${found.email} stops sending, its inboxes stop receiving, and its DKIM keys are erased after 7 days.`,
        )
        const { api, domains } = await domainApi(deps, followers)
        await api.as(requireUser(deps.store, found.email)).remove(domains, found.id)
        answer(invocation().terminal, { id: found.id, name: found.name, removed: true }, () => `Removed ${found.name}.`)
      }),
  )
}
