// `postrider suppression …`: the operator's commands for suppressed addresses.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { parseAddress } from '../message/address.ts'
import { normalised } from './stops.ts'
import { listSuppressions, removeSuppressions, suppress, type Suppression } from './suppressions.ts'
import { theDomain, whose, type Whose } from '../domains/find-domain.ts'
import { asks, confirm, type Sure } from '../views/command/confirm.ts'
import { withDeps, type Invocation } from '../views/command/open.ts'
import { answer, answerRows } from '../views/command/terminal.ts'

const show = (domain: string, { id, email, reason, source, scope, expires_at, created_at }: Suppression) => ({
  id,
  email,
  domain,
  reason,
  source,
  scope,
  expires_at: expires_at === null ? null : iso(expires_at),
  created_at: iso(created_at),
})

function addressOf(text: string): string {
  const address = parseAddress(text)
  if (!address) throw new OperatorError(`"${text}" is not an email address; use one such as bob@example.net.`)
  return address.address
}

export function suppressionCommand(program: Command, invocation: () => Invocation): void {
  const suppression = program.command('suppression').description('manage the addresses that a domain does not send to')
  add(suppression, invocation)
  list(suppression, invocation)
  remove(suppression, invocation)
}

function add(suppression: Command, invocation: () => Invocation): void {
  whose(suppression.command('add <address>'))
    .description('suppress an address for a sending domain')
    .requiredOption('--domain <name>', 'sending domain')
    .addOption(
      new Option('--scope <scope>', 'all email, or campaigns only').choices(['all', 'marketing']).default('all'),
    )
    .action(
      (text: string, { domain: name, scope, ...which }: Whose & { domain: string; scope: Suppression['scope'] }) =>
        withDeps(invocation(), async ({ store, clock }) => {
          const address = addressOf(text)
          const domain = theDomain(store, name, which)
          const about = {
            user_key: domain.user_key,
            domain_key: domain.key,
            address,
            reason: 'manual',
            source: 'manual',
            scope,
          } as const
          const added = await store.write((tx) => suppress(tx, about, clock.now()))
          answer(
            invocation().terminal,
            show(domain.name, added),
            (shown) => `${shown.email} is suppressed for ${shown.domain} (${shown.scope}).`,
          )
        }),
    )
}

function list(suppression: Command, invocation: () => Invocation): void {
  whose(suppression.command('list'))
    .description('list suppressions, newest first')
    .option('--domain <name>', 'only this sending domain')
    .action(({ domain, ...which }: Whose & { domain?: string }) =>
      withDeps(invocation(), ({ store }) => {
        if (domain === undefined && (which.user ?? which.region) !== undefined)
          suppression.error('--user and --region need --domain; add it.', {
            exitCode: 2,
          })
        const rows = listSuppressions(store, domain === undefined ? undefined : theDomain(store, domain, which).key)
        const shown = rows.map((row) => show(row.domain, row))
        const columns = {
          ADDRESS: 'email',
          DOMAIN: 'domain',
          SCOPE: 'scope',
          REASON: 'reason',
          SOURCE: 'source',
          UNTIL: ({ expires_at }: (typeof shown)[number]) => expires_at ?? 'permanent',
          SINCE: 'created_at',
        } as const
        answerRows(invocation().terminal, shown, columns, 'There are no suppressions.')
      }),
    )
}

function remove(suppression: Command, invocation: () => Invocation): void {
  asks(whose(suppression.command('remove <address>')))
    .description('remove the suppression of an address')
    .requiredOption('--domain <name>', 'sending domain')
    .action((text: string, { domain: name, yes, ...which }: Whose & Sure & { domain: string }) =>
      withDeps(invocation(), async (deps) => {
        const address = addressOf(text)
        const domain = theDomain(deps.store, name, which)
        await confirm(
          invocation(),
          yes ? { yes } : {},
          `${domain.name} can send to ${normalised(address)} again. The reason of the suppression is deleted.`,
        )
        const removed = await removeSuppressions(deps, domain.key, address)
        if (removed === 0)
          throw new OperatorError(
            `${normalised(address)} is not suppressed for ${domain.name}; run "postrider suppression list" to see all suppressions.`,
          )
        answer(
          invocation().terminal,
          { email: normalised(address), domain: domain.name, removed },
          (shown) => `${shown.domain} can send to ${shown.email} again.`,
        )
      }),
    )
}
