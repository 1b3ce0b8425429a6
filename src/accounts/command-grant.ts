// `postrider grant …`: the grants that people gave to OAuth programs; the operator can end them.
import type { Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { programName } from '../identity/oauth-documents.ts'
import { listGrants, revokeGrantById } from '../identity/oauth-grants.ts'
import { asks, confirm, type Sure } from '../commands/confirm.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'

export function grantCommand(program: Command, invocation: () => Invocation): void {
  const grant = program.command('grant').description('programs that people let in over OAuth')
  grant
    .command('list')
    .description('list the valid grants')
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
            ? 'Nobody has let a program in.'
            : table(
                ['ID', 'USER', 'PROGRAM', 'LED BACK TO', 'ALLOWED'],
                list.map((one) => [one.id, one.user, programName(one), one.redirect_uri, one.created_at]),
              ),
        )
      }),
    )
  asks(grant.command('revoke <id>'))
    .description('end it at once, with all its tokens')
    .action((id: string, sure: Sure) =>
      withDeps(invocation(), async (deps) => {
        const known = listGrants(deps.store).find((each) => each.id === id)
        if (known)
          await confirm(
            invocation(),
            sure,
            `${programName(known)} loses all its tokens of ${known.email}, who would have to let it in again.`,
          )
        if (!(await revokeGrantById(deps, id)))
          throw new OperatorError(`There is no grant ${id}; "postrider grant list" shows all.`)
        answer(invocation().terminal, { id, revoked: true }, () => `Revoked ${id}.`)
      }),
    )
}
