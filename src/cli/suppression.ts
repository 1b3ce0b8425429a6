// `postrider suppression …`: the operator's commands for addresses that must not get mail.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { parseAddress } from '../message/address.ts'
import { normalised } from '../outbound/suppressions/stops.ts'
import {
  listSuppressions,
  removeSuppressions,
  suppress,
  type Suppression,
} from '../outbound/suppressions/suppressions.ts'
import { theDomain, whose, type Whose } from './whose.ts'
import { openSource } from './csv-source.ts'
import { asks, confirm, type Sure } from '../commands/confirm.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { REASONS, SOURCES, type SuppressionWishes } from './suppression-columns.ts'
import { exportSuppressions, importSuppressions, type SuppressionsImported } from './suppression-import.ts'
import { printable } from '../base/printable.ts'
import { answer, progress, table } from '../commands/terminal.ts'

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
  transfer(suppression, invocation)
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

const IMPORT_HELP = `
The file has a column of addresses and one of reasons (hard_bounce, complaint, unsubscribe, manual, list_import); a bare list of addresses is
suppressed as list_import. --from knows what the columns of a program mean, and takes the JSON of Amazon SES and Postmark as well. An entry
that is there is never removed or weakened.`

/** The commands that import and export lists. */
function transfer(suppression: Command, invocation: () => Invocation): void {
  type Options = Whose & SuppressionWishes & { domain: string; force?: true }
  whose(suppression.command('import <file>'))
    .description('bring suppressions in from a CSV file ("-": standard input)')
    .requiredOption('--domain <name>', 'the sending domain')
    .addOption(new Option('--from <program>', 'whose export it is').choices(SOURCES))
    .addOption(new Option('--reason <reason>', 'why all of them are suppressed').choices(REASONS))
    .option('--force', 'import the sound rows, however many are in error')
    .addHelpText('after', IMPORT_HELP)
    .action((file: string, { domain: name, force, from, reason, ...which }: Options) =>
      withDeps(invocation(), async (deps) => {
        const { terminal } = invocation()
        const domain = theDomain(deps.store, name, which)
        const source = await openSource(file, deps.config.data_dir, deps.clock.now())
        try {
          const bar = progress(terminal, source.size)
          const wishes = { from, reason, force: force === true }
          const result = await importSuppressions(deps, domain, source, wishes, bar)
          bar.end()
          answer(terminal, result, (shown) => told(shown, domain.name))
        } finally {
          source.close()
        }
      }),
    )
  whose(suppression.command('export'))
    .description('write the suppressions of a domain to standard output as CSV')
    .requiredOption('--domain <name>', 'the sending domain')
    .action(({ domain: name, ...which }: Whose & { domain: string }) =>
      withDeps(invocation(), (deps) =>
        exportSuppressions(deps, theDomain(deps.store, name, which), invocation().terminal),
      ),
    )
}

function told(
  { created, errors, incomplete, more_errors = 0, skipped, updated }: SuppressionsImported,
  domain: string,
): string {
  const failed = errors.length + more_errors
  return [
    `${created} addresses are suppressed on ${domain} now, ${updated > 0 ? `${updated} more widely than before, ` : ''}${skipped} skipped${failed > 0 ? `, ${failed} of them in error` : ''}.`,
    ...errors.map(({ line, reason }) => `  line ${line}: ${printable(reason)}`),
    ...(more_errors > 0 ? [`  and ${more_errors} more`] : []),
    ...(incomplete
      ? ['This file is one page of several: it says so itself. Export and import the next pages too.']
      : []),
  ].join('\n')
}
