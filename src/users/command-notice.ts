// `postrider notices`: the notifications to owners and to the operator.
import type { Command } from 'commander'
import { iso } from '../base/clock.ts'
import { listNotices } from './notices.ts'
import { withStore, type Invocation } from '../views/command/open.ts'
import { answer, table } from '../views/command/terminal.ts'

export function noticesCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('notices')
    .description('list notifications to users, newest first')
    .action(() =>
      withStore(invocation(), (store) => {
        const notices = listNotices(store).map((notice) => ({
          id: notice.id,
          user: notice.email,
          subject: notice.subject,
          text: notice.text,
          mailed: notice.mailed === 1,
          attempts: notice.attempts,
          next_attempt_at: notice.next_attempt_at === null ? null : iso(notice.next_attempt_at),
          response: notice.response,
          created_at: iso(notice.created_at),
        }))
        answer(invocation().terminal, notices, (list) =>
          list.length === 0
            ? 'There are no notifications.'
            : table(
                ['TIME', 'USER', 'EMAILED', 'SUBJECT'],
                list.map((one) => [
                  one.created_at,
                  one.user,
                  one.mailed ? 'yes' : one.next_attempt_at ? 'not yet' : 'no',
                  one.subject,
                ]),
              ),
        )
      }),
    )
}
