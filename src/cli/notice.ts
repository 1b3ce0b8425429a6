// `postrider notices`, and how a notice reaches its owner: by mail from the domain it is about, through the same queue as all
// mail; where that domain cannot send, it stands in the list and in the log.
import type { Command } from 'commander'
import { DAY, iso } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import { listNotices, mailableNotices, markNotice } from '../accounts/notices.ts'
import type { ApiDesk } from '../api/desk.ts'
import { submitEmail } from '../outbound/submit.ts'
import { withDesk, type Invocation } from './open.ts'
import { answer, table } from './terminal.ts'

/** So long a notice is news. */
const PATIENCE = 7 * DAY

/** Mails what was not mailed yet and can be now. A crash in between mails nothing twice: the notice's id is the key. */
export async function mailNotices(desk: ApiDesk): Promise<void> {
  const { store } = desk
  for (let page = mailableNotices(store, 0); page.length > 0; page = mailableNotices(store, page.at(-1)!.key))
    for (const notice of page) await mailNotice(desk, notice)
}

async function mailNotice(desk: ApiDesk, notice: ReturnType<typeof mailableNotices>[number]): Promise<void> {
  const { bells, log } = desk
  const { domain, email, id, subject, text } = notice
  log.warn('notice', { user: email, subject })
  const html = `<pre style="white-space:pre-wrap">${text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</pre>`
  const from = `Postrider <postmaster@${domain}>`
  const mail = { from, to: email, subject, html, text, idempotency_key: `notice-${id}` }
  try {
    await submitEmail({ ...desk, ring: bells.deliveries }, notice.user_key, mail)
    await markNotice(desk, notice.key, 'mailed')
  } catch (thrown) {
    // A suppressed owner or an inactive subscription: the notice stands in the list, and is tried again for a while.
    log.warn('notice not mailed', { user: email, subject, error: messageOf(thrown) })
    if (desk.clock.now() - notice.created_at > PATIENCE) await markNotice(desk, notice.key, 'given up')
  }
}

export function noticesCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('notices')
    .description('what owners were told, newest first')
    .action(() =>
      withDesk(invocation(), ({ store }) => {
        const notices = listNotices(store).map(({ id, email, subject, text, mailed, created_at }) => ({
          id,
          user: email,
          subject,
          text,
          mailed: mailed === 1,
          created_at: iso(created_at),
        }))
        answer(invocation().terminal, notices, (list) =>
          list.length === 0
            ? 'There are no notices.'
            : table(
                ['WHEN', 'USER', 'MAILED', 'SUBJECT'],
                list.map((one) => [one.created_at, one.user, one.mailed ? 'yes' : 'no', one.subject]),
              ),
        )
      }),
    )
}
