// `postrider source list`: the addresses that mail leaves from.
import type { Command } from 'commander'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'
import { shownSources, type ShownSource } from './shown-sources.ts'

export function sourceCommand(program: Command, invocation: () => Invocation): void {
  const source = program.command('source').description('see the source addresses, which mail leaves from')
  source
    .command('list')
    .description('list them: role, name, whether this machine has them, reverse DNS, blocklists, warm-up')
    .action(() =>
      withDeps(invocation(), async (deps) =>
        answer(invocation().terminal, await shownSources(deps), (shown) =>
          shown.length === 0
            ? 'The system chooses the source address (warm-up calls it "default"); name addresses in "delivery.source".'
            : onPaper(shown),
        ),
      ),
    )
}

const known = (yes: boolean | null): string | null => (yes === null ? null : yes ? 'yes' : 'no')

const onPaper = (shown: readonly ShownSource[]): string =>
  table(
    ['ADDRESS', 'ROLE', 'HOSTNAME', 'USABLE', 'REVERSE', 'LEADS BACK', 'LISTED ON', 'WARM-UP', 'USED TODAY'],
    shown.map((source) => [
      source.address,
      source.role,
      source.hostname,
      known(source.usable),
      source.reverse,
      known(source.forward_confirmed),
      source.listed_on?.join(', ') ?? null,
      source.state,
      source.used_today,
    ]),
  )
