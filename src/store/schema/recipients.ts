// The table of the pages for recipients: how many emails were requested for an address.
import { integer, key, tablesOf, text, time, word } from './table.ts'

export const recipientsTables = tablesOf('recipients', {
  /** The emails of the last 24 hours that people requested for an address, over all accounts. */
  recipient_emails: {
    undigested: 'counts of one day',
    columns: {
      key: key(),
      /** Hex HMAC-SHA-256 of the normalised address. */
      recipient_hash: text({ nobody: 'a hash' }),
      /** The tag of the email. */
      kind: word<string>(),
      audience_key: integer({ null: true }),
      sent_at: time({ ahead: 'past' }),
    },
  },
})
