// Selects the recipients of a campaign: its contacts in the order of their keys, page by page.
// Each query reads a bounded number of rows.
import { knownAddress } from '../message/address.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { Campaign } from './edit.ts'

/** Contacts of one page: few enough that one transaction does not delay others. */
const PAGE = 100

export interface PageOfMails {
  mails: { email: string; contact: number | null }[]
  /** The position after this page. */
  to: number
}

const DONE = Number.MAX_SAFE_INTEGER
export const walked = (campaign: Campaign): boolean =>
  campaign.walked_to >= (campaign.last_contact ?? 0) && (campaign.test_mode === 0 || campaign.walked_to === DONE)

const testPage = ({ test_recipient_email }: Campaign): PageOfMails => ({
  mails: test_recipient_email === null ? [] : [{ email: parseTestAddress(test_recipient_email), contact: null }],
  to: DONE,
})

/** The next page of a campaign. */
export const nextPage = (reader: Reader, campaign: Campaign): PageOfMails =>
  campaign.test_mode === 1 ? testPage(campaign) : contactsPage(reader, campaign)

/** The address without its display name, which may be stored with it. */
const parseTestAddress = (text: string): string => knownAddress(text).address

/** Subscribed and not suppressed when the campaign began. Changes since then are checked when the mail is sent. */
const WANTED = `(c.status = 'subscribed' and c.status_at <= ? or c.status <> 'subscribed' and c.status_at > ?)
  and not exists (select 1 from suppressions s where s.domain_key = ? and s.email = c.email
    and s.created_at <= ? and (s.expires_at is null or s.expires_at > ?))`

const wantedOf = ({ domain_key, started_at }: Campaign): (number | null)[] => [
  started_at,
  started_at,
  domain_key,
  started_at,
  started_at,
]

/** The next contacts. One query reads a bounded number of rows, whether they are recipients or not. */
function contactsPage(reader: Reader, campaign: Campaign): PageOfMails {
  const rows = reader.all(
    raw<{ key: number; email: string; wanted: 0 | 1 }>(
      `select key, email, (${WANTED}) as wanted from (
         select * from contacts where audience_key = ? and key > ? and key <= ? order by key limit ${PAGE}) c`,
      [...wantedOf(campaign), campaign.audience_key, campaign.walked_to, campaign.last_contact],
    ),
  )
  return {
    mails: rows.filter(({ wanted }) => wanted === 1).map(({ key, email }) => ({ email, contact: key })),
    to: rows.at(-1)?.key ?? DONE,
  }
}

export function lastContact(reader: Reader, audienceKey: number): number {
  return (
    reader.first(
      raw<{ last: number | null }>('select max(key) as last from contacts where audience_key = ?', [audienceKey]),
    )?.last ?? 0
  )
}

/** Contacts that one query counts. */
const COUNTED = 10_000

/** The number of recipients among the next contacts, and the key of the last one read; null: there are no more. */
export const countWanted = (reader: Reader, campaign: Campaign, from: number): { count: number; last: number | null } =>
  reader.one(
    raw<{ count: number; last: number | null }>(
      `select count(*) filter (where ${WANTED}) as count, max(key) as last from (
         select * from contacts where audience_key = ? and key > ? and key <= ? order by key limit ${COUNTED}) c`,
      [...wantedOf(campaign), campaign.audience_key, from, campaign.last_contact],
    ),
  )
