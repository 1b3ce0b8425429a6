// A campaign's mails in lists: the columns that they share with their campaign, and a faster way to find the mails of a
// large campaign.
import { must } from '../base/errors.ts'
import { DAY } from '../base/clock.ts'
import type { Reader } from '../store/database.ts'
import type { ListedRow } from '../store/list.ts'
import { db, raw } from '../store/query.ts'
import { sharedIdentity, taggedOf } from '../message/identity.ts'

interface Common {
  key: number
  from_address: string | null
  subject: string
  domain: string
  test_mode: number
}

interface ReachedContact {
  key: number
  email: string
  name: string | null
  custom_fields: string | null
}

const NOBODY = { email: null, name: null, custom_fields: null }

/** Gives campaign mails their sender, subject (filled for its contact) and Message-ID; other rows stay as they are. */
export function fillLean(reader: Reader, rows: ListedRow[]): void {
  const lean = rows.filter((row) => row['campaign_key'] !== null && row['campaign_key'] !== undefined)
  if (lean.length === 0) return
  const common = new Map(
    reader
      .all(
        raw<Common>(
          `select c.key, c.from_address, c.subject, c.test_mode, d.name as domain from campaigns c join domains d on d.key = c.domain_key
           where c.key in (select value from json_each(?))`,
          [JSON.stringify([...new Set(lean.map((row) => row['campaign_key']))])],
        ),
      )
      .map((campaign) => [campaign.key, campaign]),
  )
  const tagged = lean.filter((row) => common.get(row['campaign_key'] as number)?.subject.includes('{{'))
  const contacts = contactsOf(reader, tagged)
  for (const row of lean) {
    const campaign = must(common.get(row['campaign_key'] as number), 'The campaign of a mail')
    const to = taggedOf(contacts.get(row['contact_key']) ?? NOBODY, { ...campaign, to: row['to'] as string })
    Object.assign(row, sharedIdentity(row['id'] as string, campaign, campaign.domain, to))
  }
}

/** The contacts that mails go to, by their keys. */
function contactsOf(reader: Reader, rows: readonly ListedRow[]): Map<unknown, ReachedContact> {
  const keys = rows.flatMap((row) => (typeof row['contact_key'] === 'number' ? [row['contact_key']] : []))
  if (keys.length === 0) return new Map()
  const found = reader.all(
    raw<ReachedContact>(
      'select key, email, name, custom_fields from contacts where key in (select value from json_each(?))',
      [JSON.stringify(keys)],
    ),
  )
  return new Map(found.map((contact) => [contact.key, contact]))
}

/** The number of recipients from which a campaign counts as large. */
const LARGE = 10_000

/**
 * A condition for the mails of one large campaign by their time of creation, which is the order of lists: by the index
 * of campaigns all of these mails would be read and sorted for each page. Undefined for other queries.
 */
export function ofLargeCampaign(
  keys: readonly number[],
  reader: Reader,
): { sql: string; parameters: number[] } | undefined {
  const [key] = keys
  if (key === undefined || keys.length > 1) return undefined
  const campaign = reader.first(
    db
      .selectFrom('campaigns')
      .select(['created_at', 'finished_at'])
      .where('key', '=', key)
      .where('recipients', '>=', LARGE),
  )
  if (!campaign) return undefined
  // The "+" stops SQLite from using the index of campaigns; the additional day is for clocks that were set back.
  return {
    sql: '+campaign_key = ? and created_at >= ? and created_at <= ?',
    parameters: [key, campaign.created_at - DAY, (campaign.finished_at ?? Number.MAX_SAFE_INTEGER) + DAY],
  }
}
