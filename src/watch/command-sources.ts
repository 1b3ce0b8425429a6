// `postrider source list`: the addresses that mail leaves from.
import type { Command } from 'commander'
import { withDeps, type Invocation } from '../views/command/open.ts'
import { answer, table } from '../views/command/terminal.ts'
import { shownSources, type ShownSource } from './shown-sources.ts'

export function sourceCommand(program: Command, invocation: () => Invocation): void {
  const source = program.command('source').description('view the sending IP addresses')
  source
    .command('list')
    .description('list sending IP addresses with PTR, blocklist and warm-up status')
    .action(() =>
      withDeps(invocation(), async (deps) =>
        answer(invocation().terminal, await shownSources(deps), (shown) =>
          shown.length === 0
            ? 'The operating system chooses the sending IP address ("default" in warm-up). To choose it yourself, set "delivery.source".'
            : onPaper(shown),
        ),
      ),
    )
}

const known = (yes: boolean | null): string | null => (yes === null ? null : yes ? 'yes' : 'no')

const onPaper = (shown: readonly ShownSource[]): string =>
  table(
    ['ADDRESS', 'ROLE', 'HOSTNAME', 'USABLE', 'PTR', 'CONFIRMED', 'LISTED ON', 'WARM-UP', 'USED TODAY'],
    shown.map((source) => [
      source.address,
      source.role,
      source.hostname,
      known(source.usable),
      source.reverse_dns,
      known(source.forward_confirmed),
      source.listed_on?.join(', ') ?? null,
      source.state,
      source.used_today,
    ]),
  )
