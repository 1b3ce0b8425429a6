// `postrider token …`: personal access tokens for the API.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { isScope, SCOPES } from '../accounts/scopes.ts'
import { createToken, DURATIONS, listTokens, revokeToken, type Duration } from '../accounts/tokens.ts'
import { requireUser } from '../accounts/users.ts'
import { withDesk, type Invocation } from './open.ts'
import { answer, table } from './terminal.ts'

/** "all" or a list of scope names. Throws an OperatorError that names the unknown one. */
export function parseScopes(text: string): (typeof SCOPES)[number][] {
  if (text === 'all') return [...SCOPES]
  return text.split(',').map((part) => {
    const scope = part.trim()
    if (!isScope(scope))
      throw new OperatorError(
        scope === 'all'
          ? '"all" stands alone: it is every scope.'
          : `"${scope}" is not a scope; use "all" or some of ${SCOPES.join(', ')}.`,
      )
    return scope
  })
}

export function tokenCommand(program: Command, invocation: () => Invocation): void {
  const token = program.command('token').description('create, list and revoke API tokens')
  token
    .command('create')
    .description('create a token; it is shown this once')
    .requiredOption('--user <email>', 'whose token')
    .requiredOption('--name <name>', 'a name to recognise it by')
    .requiredOption('--scopes <scopes>', 'all, or scopes separated by commas')
    .addOption(
      new Option('--duration <duration>', 'how long it lives').choices(Object.keys(DURATIONS)).makeOptionMandatory(),
    )
    .action((options: { user: string; name: string; scopes: string; duration: Duration }) =>
      withDesk(invocation(), async (desk) => {
        const scopes = parseScopes(options.scopes)
        const { key } = requireUser(desk.store, options.user)
        const { token: made, plaintext } = await createToken(desk, key, {
          name: options.name,
          scopes,
          duration: options.duration,
        })
        answer(
          invocation().terminal,
          { id: made.id, token: plaintext, scopes, expires_at: iso(made.expires_at) },
          (shown) => `${shown.token}\n\nKeep it now: it is not shown again. It expires ${shown.expires_at}.`,
        )
      }),
    )
  token
    .command('list')
    .description('list tokens')
    .option('--user <email>', 'of this user only')
    .action(({ user }: { user?: string }) =>
      withDesk(invocation(), ({ store }) => {
        const tokens = listTokens(store, user === undefined ? undefined : requireUser(store, user).key).map((row) => ({
          id: row.id,
          user: row.email,
          name: row.name,
          scopes: JSON.parse(row.scopes) as string[],
          last_four: row.last_four,
          expires_at: iso(row.expires_at),
          last_used_at: row.last_used_at === null ? null : iso(row.last_used_at),
        }))
        answer(invocation().terminal, tokens, (list) =>
          table(
            ['ID', 'USER', 'NAME', 'TOKEN', 'EXPIRES', 'LAST USED', 'SCOPES'],
            list.map((one) => [
              one.id,
              one.user,
              one.name,
              `…${one.last_four}`,
              one.expires_at,
              one.last_used_at,
              one.scopes.length === SCOPES.length ? 'all' : one.scopes.join(','),
            ]),
          ),
        )
      }),
    )
  token
    .command('revoke <id>')
    .description('revoke a token at once')
    .action((id: string) =>
      withDesk(invocation(), async ({ store }) => {
        if (!(await revokeToken(store, id)))
          throw new OperatorError(`There is no token ${id}; "postrider token list" shows all.`)
        answer(invocation().terminal, { id, revoked: true }, () => `Revoked ${id}.`)
      }),
    )
}
