// `postrider oauth …`: the applications that can request access. `postrider grant …`: the access that users granted.
import type { Command } from 'commander'
import { must, OperatorError } from '../../base/errors.ts'
import { iso } from '../../base/clock.ts'
import { allow, disallow, listAllowed, PROGRAMS } from './allowed.ts'
import { withDeps, type Invocation } from '../../views/command/open.ts'
import { answer, table } from '../../views/command/terminal.ts'
import { programName } from './clients.ts'
import { listGrants, revokeGrantById } from './grants.ts'
import { asks, confirm, type Sure } from '../../views/command/confirm.ts'

const known = Object.keys(PROGRAMS).join(', ')

export function oauthCommand(program: Command, invocation: () => Invocation): void {
  const oauth = program.command('oauth').description('manage the applications that can request access over OAuth')
  oauth
    .command('allow')
    .argument('<application>', `${known} or an origin such as https://agent.example.org`)
    .description('allow an application to request access')
    .action((given: string) =>
      withDeps(invocation(), async (deps) => {
        const name = await allow(deps, given)
        const entry = listAllowed(deps.store, deps.config).find(
          (each) => each.created_at !== null && each.name === name,
        )
        const { addresses, origins } = must(entry, 'The allowed application')
        answer(
          invocation().terminal,
          { name, origins, addresses },
          () => `${name} can now request access and redirect users to ${[...addresses, ...origins].join(', ')}.`,
        )
      }),
    )
  oauth
    .command('disallow <application>')
    .description('stop new requests for access; existing grants remain valid')
    .action((given: string) =>
      withDeps(invocation(), async (deps) => {
        const name = await disallow(deps, given)
        answer(
          invocation().terminal,
          { name, disallowed: true },
          () =>
            `${name} can no longer request access. Existing grants remain valid; revoke them with "postrider grant revoke".`,
        )
      }),
    )
  oauth
    .command('list')
    .description('list allowed applications and their redirect URIs')
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
            ? 'No applications are allowed to request access.'
            : table(
                ['NAME', 'ALLOWED', 'REDIRECT URIS'],
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

export function grantCommand(program: Command, invocation: () => Invocation): void {
  const grant = program.command('grant').description('manage the access that users granted to OAuth applications')
  grant
    .command('list')
    .description('list valid grants')
    .action(() =>
      withDeps(invocation(), ({ store }) => {
        const grants = listGrants(store).map((row) => ({
          id: row.id,
          user: row.email,
          client_id: row.client_id,
          client_name: row.client_name,
          redirect_uri: row.redirect_uri,
          resource: row.resource,
          created_at: iso(row.created_at),
        }))
        answer(invocation().terminal, grants, (list) =>
          list.length === 0
            ? 'There are no OAuth grants.'
            : table(
                ['ID', 'USER', 'APPLICATION', 'REDIRECT URI', 'GRANTED'],
                list.map((one) => [one.id, one.user, programName(one), one.redirect_uri, one.created_at]),
              ),
        )
      }),
    )
  asks(grant.command('revoke <id>'))
    .description('revoke a grant and all its tokens immediately')
    .action((id: string, sure: Sure) =>
      withDeps(invocation(), async (deps) => {
        const known = listGrants(deps.store).find((each) => each.id === id)
        if (known)
          await confirm(
            invocation(),
            sure,
            `${programName(known)} loses access to the account of ${known.email}, who can grant it again.`,
          )
        if (!(await revokeGrantById(deps, id)))
          throw new OperatorError(`There is no grant ${id}; run "postrider grant list" to see all grants.`)
        answer(invocation().terminal, { id, revoked: true }, () => `Revoked ${id}.`)
      }),
    )
}
