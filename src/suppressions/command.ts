// `postrider suppression …`: the operator's commands for addresses that must not get mail.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { parseAddress } from '../message/address.ts'
import { normalised } from './stops.ts'
import { listSuppressions, removeSuppressions, suppress, type Suppression } from './suppressions.ts'
import { theDomain, whose, type Whose } from '../domains/find-domain.ts'
import { asks, confirm, type Sure } from '../commands/confirm.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'

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
  if (!address) throw new OperatorError(`"${text}" is not an email address.`)
  return address.address
}

export function suppressionCommand(program: Command, invocation: () => Invocation): void {
  const suppression = program.command('suppression').description('addresses that must not be mailed')
  add(suppression, invocation)
  list(suppression, invocation)
  remove(suppression, invocation)
}

function add(suppression: Command, invocation: () => Invocation): void {
  whose(suppression.command('add <address>'))
    .description('suppress an address on a sending domain')
    .requiredOption('--domain <name>', 'the sending domain')
    .addOption(
      new Option('--scope <scope>', 'all mail, or campaigns only').choices(['all', 'marketing']).default('all'),
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
            (shown) => `${shown.email} is suppressed on ${shown.domain} (${shown.scope}).`,
          )
        }),
    )
}

function list(suppression: Command, invocation: () => Invocation): void {
  whose(suppression.command('list'))
    .description('list suppressions, newest first')
    .option('--domain <name>', 'of this sending domain only')
    .action(({ domain, ...which }: Whose & { domain?: string }) =>
      withDeps(invocation(), ({ store }) => {
        if (domain === undefined && (which.user ?? which.region) !== undefined)
          suppression.error('Say which with --domain; --user and --region only tell several of one name apart.', {
            exitCode: 2,
          })
        const rows = listSuppressions(store, domain === undefined ? undefined : theDomain(store, domain, which).key)
        answer(
          invocation().terminal,
          rows.map((row) => show(row.domain, row)),
          (list) =>
            list.length === 0
              ? 'Nobody is suppressed.'
              : table(
                  ['ADDRESS', 'DOMAIN', 'SCOPE', 'REASON', 'SOURCE', 'UNTIL', 'SINCE'],
                  list.map((row) => [
                    row.email,
                    row.domain,
                    row.scope,
                    row.reason,
                    row.source,
                    row.expires_at ?? 'for good',
                    row.created_at,
                  ]),
                ),
        )
      }),
    )
}

function remove(suppression: Command, invocation: () => Invocation): void {
  asks(whose(suppression.command('remove <address>')))
    .description('let an address be mailed again, whatever the reason was')
    .requiredOption('--domain <name>', 'the sending domain')
    .action((text: string, { domain: name, yes, ...which }: Whose & Sure & { domain: string }) =>
      withDeps(invocation(), async (deps) => {
        const address = addressOf(text)
        const domain = theDomain(deps.store, name, which)
        await confirm(
          invocation(),
          yes ? { yes } : {},
          `Mail from ${domain.name} goes to ${normalised(address)} again, and why it was stopped is forgotten.`,
        )
        const removed = await removeSuppressions(deps, domain.key, address)
        if (removed === 0) throw new OperatorError(`${normalised(address)} is not suppressed on ${domain.name}.`)
        answer(
          invocation().terminal,
          { email: normalised(address), domain: domain.name, removed },
          (shown) => `${shown.email} may be mailed again from ${shown.domain}.`,
        )
      }),
    )
}
