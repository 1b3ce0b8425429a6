// `postrider notices`, and how a notice reaches its owner: by mail from the domain it is about, through the same queue as all
// mail; where that domain cannot send, it stands in the list and in the log.
import type { Command } from 'commander'
import { iso } from '../base/clock.ts'
import { addNotice, listNotices, markMailed } from '../accounts/notices.ts'
import type { ApiDesk } from '../api/desk.ts'
import { submitEmail } from '../outbound/submit.ts'
import { db } from '../store/query.ts'
import type { Webhook } from '../webhooks/endpoints.ts'
import { withDesk, type Invocation } from './open.ts'
import { answer, table } from './terminal.ts'

/** Tells the owner of a webhook that it was disabled. Never throws. */
export async function tellDisabled(desk: ApiDesk, webhook: Webhook, reason: string): Promise<void> {
  const { log, store } = desk
  const subject = `Webhook "${webhook.name}" was disabled`
  const text = `Postrider stopped sending events to your webhook "${webhook.name}" (${webhook.url}), because ${reason}.

Events are kept on record from now on. Once the endpoint works again, set the webhook active (PATCH /webhooks/${webhook.id} with
"active": true) and replay the deliveries that you want.
`
  log.warn('webhook disabled', { webhook: webhook.id, reason })
  try {
    const notice = await addNotice(desk, webhook.user_key, subject, text)
    const owner = store.first(db.selectFrom('users').select('email').where('key', '=', webhook.user_key))
    const domain = store.first(
      db.selectFrom('domains').select('name').where('key', '=', webhook.domain_key).where('status', '=', 'active'),
    )
    if (!owner || !domain) return
    const html = `<pre style="white-space:pre-wrap">${text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</pre>`
    const mail = { from: `Postrider <postmaster@${domain.name}>`, to: owner.email, subject, html, text }
    await submitEmail({ ...desk, ring: desk.bells.deliveries }, webhook.user_key, mail)
    await markMailed(desk, notice.key)
  } catch (thrown) {
    log.fault('notice', thrown)
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
