// Deliveries of events about one mail, which the column `about` names.
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/tables.ts'

/** The value of `about`: events about one mail are delivered in order. */
export const aboutMail = (emailKey: number): string => `mail ${emailKey}`

/** A mail has as many as it had events, for each endpoint. */
const MOST = 500

export const deliveriesAboutMail = (reader: Reader, emailKey: number): RowOf<'outbound_webhooks'>[] =>
  reader.all(
    db
      .selectFrom('outbound_webhooks')
      .selectAll()
      .where('about', '=', aboutMail(emailKey))
      // The index holds these rows alone, and is used where a statement says so.
      .where('about', '<>', '')
      .orderBy('key')
      .limit(MOST),
  )
