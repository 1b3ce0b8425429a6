// Emails the answers of an account to requests of recipients: the link to a copy of the data, or why a request was
// declined.
import type { RecipientAnswer, AnswerMailDeps } from '../parts/part.ts'
import { livingDomain } from '../suppressions/suppressions.ts'
import type { Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import { sendToRecipient } from './email.ts'
import { textsOf } from './languages.ts'
import { senderOf } from './recipient-page.ts'

/** Queues the email with an answer, once for each request. Returns false if the address cannot get it. */
export function tellRecipient(tx: Tx, deps: AnswerMailDeps, answer: RecipientAnswer): boolean {
  const { clock, config, keyring, queueChanged } = deps
  const { domain: key, id, kind, language, link, reason, to } = answer
  const domain = tx.first(
    db.selectFrom('domains').select(['name', 'user_key']).where('key', '=', livingDomain(tx, key)),
  )
  if (!domain) return false
  const { lang, t } = textsOf({ contact: language })
  const sender = senderOf({ config, store: tx }, domain.user_key, domain.name).name
  const words =
    kind === 'export'
      ? {
          subject: t('email_export_subject'),
          text: [t('email_export_text')],
          ...(link !== undefined && { button: { label: t('email_export_button'), url: link } }),
          tag: 'subscriber_export',
        }
      : {
          subject: t('email_declined_subject', { sender }),
          text: [t('email_declined_text', { sender }), reason ?? ''],
          tag: 'subscriber_declined',
        }
  const email = { domain, to, lang, ...words, idempotencyKey: `recipient request ${id}` }
  return sendToRecipient(tx, { config, keyring, ring: queueChanged }, email, clock.now()).result === 'sent'
}
