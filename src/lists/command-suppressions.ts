// `postrider suppression import` and `postrider suppression export`: lists of addresses that must not get mail.
import { Option, type Command } from 'commander'
import { printable } from '../base/printable.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer, progress } from '../commands/terminal.ts'
import { openSource } from './csv-source.ts'
import { REASONS, SOURCES, type SuppressionWishes } from './suppression-columns.ts'
import { exportSuppressions, importSuppressions, type SuppressionsImported } from './suppression-import.ts'
import { theDomain, whose, type Whose } from '../domains/find-domain.ts'

const IMPORT_HELP = `
The file has a column of addresses and one of reasons (hard_bounce, complaint, unsubscribe, manual, list_import); a bare list of addresses is
suppressed as list_import. --from knows what the columns of a program mean, and takes the JSON of Amazon SES and Postmark as well. An entry
that is there is never removed or weakened.`

/** Adds both to the commands of `suppression`. */
export function suppressionListCommands(program: Command, invocation: () => Invocation): void {
  const suppression = program.commands.find((command) => command.name() === 'suppression')!
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
