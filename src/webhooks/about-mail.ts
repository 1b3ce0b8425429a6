// Deliveries of events about one mail, found by the column `about`.
import type { Reader } from '../store/database.ts'
import { db, sql } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'

/** The value of `about`: events about one mail are delivered in order. */
export const aboutMail = (emailKey: number): string => `mail ${emailKey}`

/** The maximum number of listed deliveries. An email has one for each of its events and each endpoint. */
const MOST = 500

export const deliveriesAboutMail = (reader: Reader, emailKey: number): RowOf<'outbound_webhooks'>[] =>
  reader.all(
    db
      .selectFrom('outbound_webhooks')
      .selectAll()
      .where('about', '=', aboutMail(emailKey))
      // The index holds only such rows: SQLite uses it only for statements with this condition.
      .where('about', '<>', sql.lit(''))
      .orderBy('key')
      .limit(MOST),
  )
