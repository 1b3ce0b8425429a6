// What states of contacts and reasons of suppressions are called on pages.
import type { Standing } from './import-with-status.ts'
import type { Reason } from '../suppressions/suppressions.ts'
import { isNameIn } from '../base/one-of.ts'

const STATUS_WORDS: Record<Standing, string> = {
  subscribed: 'subscribed',
  unconfirmed: 'left out',
  unsubscribed: 'left',
  blocked: 'suppressed',
  bounced: 'bounced',
  complained: 'complained',
}

export const statusWord = (status: string): string => (isNameIn(STATUS_WORDS, status) ? STATUS_WORDS[status] : status)

const REASON_WORDS: Record<Reason, string> = {
  manual: 'added by you',
  list_import: 'from a list',
  unsubscribe: 'left',
  hard_bounce: 'bounced',
  complaint: 'complained',
  soft_bounce: 'bounced for now',
}

export const reasonWord = (reason: string): string => (isNameIn(REASON_WORDS, reason) ? REASON_WORDS[reason] : reason)

const SOURCE_WORDS: Record<string, string> = {
  smtp: 'the receiver’s answer',
  dsn: 'a bounce message',
  arf: 'a complaint by the receiver',
  unsubscribe_link: 'the link in a mail',
  unsubscribe_mail: 'a mail to leave',
  manual: 'somebody here',
  import: 'an import',
}

/** How a suppression became known. */
export const sourceWord = (source: string): string => SOURCE_WORDS[source] ?? source
