// Fills the columns that a campaign's mails share with their campaign, for lists of mails.
import type { Reader } from '../store/database.ts'
import type { ListedRow } from '../store/list.ts'
import { raw } from '../store/query.ts'
import { sharedIdentity } from '../message/identity.ts'

interface Common {
  key: number
  from_address: string | null
  subject: string
  domain: string
}

/** Gives campaign mails their sender, subject (with its merge tags) and Message-ID; other rows stay as they are. */
export function fillLean(reader: Reader, rows: ListedRow[]): void {
  const lean = rows.filter((row) => row['campaign_key'] !== null && row['campaign_key'] !== undefined)
  if (lean.length === 0) return
  const common = new Map(
    reader
      .all(
        raw<Common>(
          `select c.key, c.from_address, c.subject, d.name as domain from campaigns c join domains d on d.key = c.domain_key
           where c.key in (select value from json_each(?))`,
          [JSON.stringify([...new Set(lean.map((row) => row['campaign_key']))])],
        ),
      )
      .map((campaign) => [campaign.key, campaign]),
  )
  for (const row of lean) {
    const campaign = common.get(row['campaign_key'] as number)!
    Object.assign(row, sharedIdentity(row['id'] as string, campaign, campaign.domain))
  }
}
