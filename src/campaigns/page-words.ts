// Labels of contact states and suppression reasons on pages.
import type { Standing } from './import-with-status.ts'
import type { Reason } from '../suppressions/suppressions.ts'
import { isNameIn } from '../base/one-of.ts'

const STATUS_WORDS: Record<Standing, string> = {
  subscribed: 'subscribed',
  unconfirmed: 'unconfirmed',
  unsubscribed: 'unsubscribed',
  blocked: 'suppressed',
  bounced: 'bounced',
  complained: 'complained',
}

export const statusWord = (status: string): string => (isNameIn(STATUS_WORDS, status) ? STATUS_WORDS[status] : status)

const REASON_WORDS: Record<Reason, string> = {
  manual: 'added manually',
  list_import: 'imported',
  unsubscribe: 'unsubscribed',
  hard_bounce: 'bounced',
  complaint: 'complained',
  soft_bounce: 'soft bounce',
}

export const reasonWord = (reason: string): string => (isNameIn(REASON_WORDS, reason) ? REASON_WORDS[reason] : reason)

const SOURCE_WORDS: Record<string, string> = {
  smtp: 'SMTP reply',
  dsn: 'bounce message',
  arf: 'spam complaint',
  unsubscribe_link: 'unsubscribe link',
  unsubscribe_mail: 'unsubscribe email',
  manual: 'added manually',
  import: 'import',
}

/** How a suppression became known. */
export const sourceWord = (source: string): string => SOURCE_WORDS[source] ?? source
