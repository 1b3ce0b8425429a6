// `postrider audit`: the audit log of an account, or of all.
import { InvalidArgumentError, Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { db } from '../store/query.ts'
import { withStore, type Invocation } from '../views/command/open.ts'
import { answer, table } from '../views/command/terminal.ts'
import { requireUser } from './users.ts'

function limitOf(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('Use a whole number from 1 to 999999.')
  return Number(text)
}

export function auditCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('audit')
    .description('list changes by users, tokens and commands, newest first')
    .option('--user <email>', 'only the account of this user')
    .addOption(new Option('--limit <n>', 'number of entries').default(100).argParser(limitOf))
    .action(({ limit, user }: { limit: number; user?: string }) =>
      withStore(invocation(), (store) => {
        const all = db
          .selectFrom('audit_entries as a')
          .innerJoin('users as u', 'u.key', 'a.user_key')
          .select([
            'a.created_at',
            'a.actor',
            'a.via',
            'a.address',
            'a.action',
            'a.subject',
            'a.role',
            'a.subject_id',
            'u.email',
          ])
          .orderBy('a.key', 'desc')
          .limit(limit)
        const rows = store.all(user === undefined ? all : all.where('u.key', '=', requireUser(store, user).key))
        const entries = rows.map(({ created_at, email, ...entry }) => ({
          created_at: iso(created_at),
          account: email,
          ...entry,
        }))
        answer(invocation().terminal, entries, (list) =>
          list.length === 0
            ? 'No changes yet.'
            : table(
                ['TIME', 'ACCOUNT', 'ACTOR', 'VIA', 'FROM', 'CHANGE', 'OF', 'ROLE'],
                list.map((each) => [
                  each.created_at,
                  each.account,
                  each.actor,
                  each.via,
                  each.address,
                  each.action,
                  each.subject,
                  each.role,
                ]),
              ),
        )
      }),
    )
}
