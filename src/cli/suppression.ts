// `postrider suppression …`: addresses that must not be mailed, by the operator's hand.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { parseAddress } from '../message/address.ts'
import {
  listSuppressions,
  normalised,
  removeSuppressions,
  suppress,
  type Suppression,
} from '../outbound/suppressions.ts'
import { theDomain, whose, type Whose } from './domain.ts'
import { withDesk, type Invocation } from './open.ts'
import { answer, table } from './terminal.ts'

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
  const terminal = () => invocation().terminal
  whose(suppression.command('add <address>'))
    .description('suppress an address on a sending domain')
    .requiredOption('--domain <name>', 'the sending domain')
    .addOption(
      new Option('--scope <scope>', 'all mail, or campaigns only').choices(['all', 'marketing']).default('all'),
    )
    .action(
      (text: string, { domain: name, scope, ...which }: Whose & { domain: string; scope: Suppression['scope'] }) =>
        withDesk(invocation(), async ({ store, clock }) => {
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
            terminal(),
            show(domain.name, added),
            (shown) => `${shown.email} is suppressed on ${shown.domain} (${shown.scope}).`,
          )
        }),
    )
  whose(suppression.command('list'))
    .description('list suppressions, newest first')
    .option('--domain <name>', 'of this sending domain only')
    .action(({ domain, ...which }: Whose & { domain?: string }) =>
      withDesk(invocation(), ({ store }) => {
        if (domain === undefined && (which.user ?? which.region) !== undefined)
          suppression.error('Say which with --domain; --user and --region only tell several of one name apart.', {
            exitCode: 2,
          })
        const rows = listSuppressions(store, domain === undefined ? undefined : theDomain(store, domain, which).key)
        answer(
          terminal(),
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
  whose(suppression.command('remove <address>'))
    .description('let an address be mailed again, whatever the reason was')
    .requiredOption('--domain <name>', 'the sending domain')
    .action((text: string, { domain: name, ...which }: Whose & { domain: string }) =>
      withDesk(invocation(), async (desk) => {
        const address = addressOf(text)
        const domain = theDomain(desk.store, name, which)
        const removed = await removeSuppressions(desk, domain.key, address)
        if (removed === 0) throw new OperatorError(`${normalised(address)} is not suppressed on ${domain.name}.`)
        answer(
          terminal(),
          { email: normalised(address), domain: domain.name, removed },
          (shown) => `${shown.email} may be mailed again from ${shown.domain}.`,
        )
      }),
    )
}
