// `postrider oauth …`: the allowed redirect targets of programs that register themselves.
import type { Command } from 'commander'
import { must } from '../base/errors.ts'
import { iso } from '../base/clock.ts'
import { allow, disallow, listAllowed, PROGRAMS } from '../identity/oauth-allowed.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'

const known = Object.keys(PROGRAMS).join('|')

export function oauthCommand(program: Command, invocation: () => Invocation): void {
  const oauth = program.command('oauth').description('programs that may ask people to let them in')
  oauth
    .command('allow <program>')
    .description(`let a program ask people to let it in: ${known} or an origin`)
    .action((given: string) =>
      withDeps(invocation(), async (deps) => {
        const name = await allow(deps, given)
        const entry = listAllowed(deps.store, deps.config).find(
          (each) => each.created_at !== null && each.name === name,
        )
        const { addresses, origins } = must(entry, 'The allowed program')
        answer(
          invocation().terminal,
          { name, origins, addresses },
          () => `${name} may redirect people to ${[...addresses, ...origins].join(', ')}.`,
        )
      }),
    )
  oauth
    .command('disallow <program>')
    .description('take that back; grants that people gave stay ("postrider grant revoke" ends them)')
    .action((given: string) =>
      withDeps(invocation(), async (deps) => {
        const name = await disallow(deps, given)
        answer(invocation().terminal, { name, disallowed: true }, () => `${name} is not allowed any more.`)
      }),
    )
  oauth
    .command('list')
    .description('list the addresses that programs may redirect people to')
    .action(() =>
      withDeps(invocation(), ({ config, store }) => {
        const entries = listAllowed(store, config).map(({ addresses, created_at, name, origins }) => ({
          name,
          origins,
          addresses,
          created_at: created_at === null ? null : iso(created_at),
        }))
        answer(invocation().terminal, entries, (list) =>
          list.length === 0
            ? 'No program may ask to be let in.'
            : table(
                ['NAME', 'ALLOWED', 'LEADS BACK TO'],
                list.map((one) => [
                  one.name,
                  one.created_at ?? 'by the configuration',
                  [...one.addresses, ...one.origins].join(' '),
                ]),
              ),
        )
      }),
    )
}
