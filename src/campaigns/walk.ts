// Selects the recipients of a campaign: its contacts in the order of their keys, page by page.
// Each query reads a bounded number of rows.
import { must } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import { erasedForm } from '../base/recipient-hash.ts'
import { knownAddress } from '../message/address.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { hasErased } from '../suppressions/stops.ts'
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
export const nextPage = (reader: Reader, keyring: Keyring, campaign: Campaign): PageOfMails =>
  campaign.test_mode === 1 ? testPage(campaign) : contactsPage(reader, keyring, campaign)

/** The address without its display name, which may be stored with it. */
const parseTestAddress = (text: string): string => knownAddress(text).address

/** A moment at which a campaign goes, or would go, to the contacts of an audience. */
export interface WalkOf {
  audience_key: number
  domain_key: number
  started_at: number | null
  last_contact: number | null
}

/** Why a contact gets no campaign. */
export const LEFT_OUT = ['unsubscribed', 'bounced', 'complained', 'suppressed'] as const
export type LeftOut = (typeof LEFT_OUT)[number]

interface WalkedContact {
  key: number
  email: string
  /** Null: the campaign goes to it. */
  left_out: LeftOut | null
}

/**
 * Contacts that were subscribed and not suppressed when the campaign began are its recipients. Changes since then are
 * checked when the mail is sent.
 */
const REASON = `case
  when c.status <> 'subscribed' and c.status_at <= ? then c.status
  when c.status = 'subscribed' and c.status_at > ? then 'unsubscribed'
  when exists (select 1 from suppressions s where s.domain_key = ? and s.email = c.email
    and s.created_at <= ? and (s.expires_at is null or s.expires_at > ?)) then 'suppressed' end`

/** The next contacts in the order of their keys, at most `limit`. The runner and the count before a start use it. */
export function nextContacts(reader: Reader, keyring: Keyring, walk: WalkOf, from: number, limit: number) {
  const { audience_key, domain_key, last_contact, started_at } = walk
  const rows = reader.all(
    raw<WalkedContact>(
      `select c.key, c.email, ${REASON} as left_out from (
         select key, email, status, status_at from contacts
         where audience_key = ? and key > ? and key <= ? order by key limit ?) c`,
      [started_at, started_at, domain_key, started_at, started_at, audience_key, from, last_contact, limit],
    ),
  )
  if (hasErased(reader, domain_key)) leaveOutErased(reader, keyring, walk, rows)
  return rows
}

/** A suppression stays when its address is erased; it then holds a hash. */
function leaveOutErased(reader: Reader, keyring: Keyring, walk: WalkOf, rows: readonly WalkedContact[]): void {
  const { domain_key, started_at } = walk
  const forms = new Map(
    rows.filter(({ left_out }) => left_out === null).map((row) => [erasedForm(keyring, row.email), row]),
  )
  const stopped = reader.all(
    raw<{ email: string }>(
      `select email from suppressions where domain_key = ? and email in (select value from json_each(?))
         and created_at <= ? and (expires_at is null or expires_at > ?)`,
      [domain_key, JSON.stringify([...forms.keys()]), started_at, started_at],
    ),
  )
  for (const { email } of stopped) must(forms.get(email), 'The contact of a hash').left_out = 'suppressed'
}

/** The next contacts. One query reads a bounded number of rows, whether they are recipients or not. */
function contactsPage(reader: Reader, keyring: Keyring, campaign: Campaign): PageOfMails {
  const rows = nextContacts(reader, keyring, campaign, campaign.walked_to, PAGE)
  return {
    mails: rows.filter(({ left_out }) => left_out === null).map(({ key, email }) => ({ email, contact: key })),
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
