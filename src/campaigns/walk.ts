// Selects the recipients of a campaign, page by page: first active readers (recent opens or clicks), then the others in
// the order of their keys. Those of a campaign to a segment were stored at its start (segments.ts). If a daily limit
// spreads a campaign over days, active readers get it on the first days. Each query reads a bounded number of rows.
import { DAY } from '../base/clock.ts'
import { must } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import { erasedForm } from '../base/recipient-hash.ts'
import { knownAddress } from '../message/address.ts'
import type { Reader, Tx } from '../store/database.ts'
import type { SqlCondition } from '../store/list.ts'
import { raw } from '../store/query.ts'
import { readSlice, takeTurn, untilSpent } from '../store/slices.ts'
import { hasErased } from '../suppressions/stops.ts'
import type { RowOf } from '../store/schema/tables.ts'

type Campaign = RowOf<'campaigns'>

/** Contacts of one page: few enough that one transaction does not delay others. */
const PAGE = 100

/** An open or click within this time makes a contact an active reader. */
export const LATELY = 90 * DAY

/** The position of a walk. */
type Position = Pick<Campaign, 'readers_to' | 'walked_to'>

export interface PageOfMails {
  mails: { email: string; contact: number | null }[]
  to: Position
}

const DONE = Number.MAX_SAFE_INTEGER
export const walked = (campaign: Campaign): boolean =>
  campaign.walked_to >= (campaign.last_contact ?? 0) && (campaign.test_mode === 0 || campaign.walked_to === DONE)

const testPage = ({ test_recipient_email }: Campaign): PageOfMails => ({
  mails: test_recipient_email === null ? [] : [{ email: parseTestAddress(test_recipient_email), contact: null }],
  to: { readers_to: DONE, walked_to: DONE },
})

/**
 * Returns the next page of a campaign. The caller must queue the emails in the same transaction, which also writes the
 * position.
 */
export const nextPage = (tx: Tx, keyring: Keyring, campaign: Campaign): PageOfMails =>
  campaign.test_mode === 1
    ? testPage(campaign)
    : campaign.segment_key !== null
      ? matchesPage(tx, keyring, campaign)
      : campaign.readers_to === DONE
        ? contactsPage(tx, keyring, campaign)
        : readersPage(tx, keyring, campaign)

/** The address without its display name, which may be stored with it. */
const parseTestAddress = (text: string): string => knownAddress(text).address

/** The time at which a campaign is sent, or would be sent, to the contacts of an audience. */
export interface WalkOf {
  audience_key: number
  domain_key: number
  started_at: number | null
  last_contact: number | null
}

/** Why a contact gets no campaign. */
export const LEFT_OUT = ['unsubscribed', 'bounced', 'complained', 'pending', 'suppressed'] as const
export type LeftOut = (typeof LEFT_OUT)[number]

interface WalkedContact {
  key: number
  email: string
  /** The size of its name and its fields. */
  bytes: number
  /** The last open or click. Only set for active readers. */
  seen_at: number | null
  /** Null if the campaign is sent to the contact. */
  left_out: LeftOut | null
}

/**
 * Contacts that were subscribed and not suppressed when the campaign started are its recipients. Changes since then are
 * checked when the mail is sent.
 */
const REASON = `case
  when c.status <> 'subscribed' and c.status_at <= ? then c.status
  when c.status = 'subscribed' and c.status_at > ? then 'unsubscribed'
  when exists (select 1 from suppressions s where s.domain_key = ? and s.email = c.email
    and s.created_at <= ? and (s.expires_at is null or s.expires_at > ?)) then 'suppressed' end`

const BYTES = 'ifnull(octet_length(name), 0) + ifnull(octet_length(custom_fields), 0) as bytes'
const IN_ORDER = `select key, email, status, status_at, ${BYTES}, null as seen_at from contacts
  where audience_key = ? and key > ? and key <= ? order by key limit ?`
const READERS = `select k.key, k.email, k.status, k.status_at, 0 as bytes, r.seen_at
  from (select contact_key, seen_at from readers
    where audience_key = ? and contact_key > ? and contact_key <= ? order by contact_key limit ?) r
  join contacts k on k.key = r.contact_key order by k.key`
const MATCHES = `select k.key, k.email, k.status, k.status_at, 0 as bytes, null as seen_at
  from segment_matches m join contacts k on k.key = m.contact_key
  where m.campaign_key = ? and m.first = ? and m.contact_key > ? and m.contact_key <= ? order by m.contact_key limit ?`

/** Contacts in the order of their keys, as SQL. `of`: its parameters before those of the page. */
interface Among {
  sql: typeof IN_ORDER | typeof READERS | typeof MATCHES
  of: readonly number[]
}

const reasonParameters = ({ domain_key, started_at }: WalkOf) => [
  started_at,
  started_at,
  domain_key,
  started_at,
  started_at,
]

/** The next contacts in the order of their keys, at most `limit`. The runner and the count before a start use it. */
export function nextContacts(
  reader: Reader,
  keyring: Keyring,
  walk: WalkOf,
  { among = { sql: IN_ORDER, of: [walk.audience_key] }, from, limit }: { from: number; limit: number; among?: Among },
) {
  const rows = reader.all(
    raw<WalkedContact>(`select c.key, c.email, c.seen_at, c.bytes, ${REASON} as left_out from (${among.sql}) c`, [
      ...reasonParameters(walk),
      ...among.of,
      from,
      walk.last_contact,
      limit,
    ]),
  )
  if (hasErased(reader, walk.domain_key)) leaveOutErased(reader, keyring, walk, rows)
  return rows
}

/** The number of contacts that are read before other work can run. */
const AT_ONCE = 5000
/** The most matching contacts of a slice, each of which costs a check of its suppressions. */
const MATCHING = 1000

/** All contacts of a walk after a key, some at a time. With `fits`, only those that meet the condition. */
export async function* contactsIn(
  reader: Reader,
  keyring: Keyring,
  walk: WalkOf,
  { fits, from: first = 0 }: { fits?: SqlCondition | undefined; from?: number } = {},
): AsyncGenerator<WalkedContact[]> {
  for (let from: number | undefined = first; from !== undefined;) {
    if (fits) {
      const { rest, rows } = await nextMatching(reader, walk, fits, from)
      if (hasErased(reader, walk.domain_key)) leaveOutErased(reader, keyring, walk, rows)
      yield rows
      from = rest
    } else {
      const rows = nextContacts(reader, keyring, walk, { from, limit: AT_ONCE })
      yield rows
      from = rows.length < AT_ONCE ? undefined : rows.at(-1)?.key
      await takeTurn()
    }
  }
}

/**
 * The next contacts that meet a condition, for as long as a slice lasts. The inner limit makes SQLite read the contacts
 * one by one in the order of their keys and evaluate the condition once for each.
 */
async function nextMatching(reader: Reader, walk: WalkOf, fits: SqlCondition, from: number) {
  const { cut, rows } = await readSlice<WalkedContact>(
    reader,
    raw(
      `select c.key, c.email, null as seen_at, c.bytes, c.fits, ${REASON} as left_out
       from (select key, email, status, status_at, ${BYTES}, (${fits.sql}) as fits from contacts
         where audience_key = ? and key > ? and key <= ? order by key limit -1) c
       where ${untilSpent('c.fits', 8)} limit ${MATCHING}`,
      [...reasonParameters(walk), ...fits.parameters, walk.audience_key, from, walk.last_contact],
    ),
  )
  return { rows, rest: cut?.key ?? (rows.length === MATCHING ? rows.at(-1)?.key : undefined) }
}

/** An erasure keeps the suppression and replaces its address with a hash. */
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

const asMails = (rows: readonly WalkedContact[]): PageOfMails['mails'] =>
  rows.filter(({ left_out }) => left_out === null).map(({ key, email }) => ({ email, contact: key }))

/**
 * The next active readers. They are recorded, so that a contact that opens an email during the campaign is neither
 * repeated nor skipped.
 */
function readersPage(tx: Tx, keyring: Keyring, campaign: Campaign): PageOfMails {
  const { key, readers_to, started_at, walked_to } = campaign
  const rows = nextContacts(tx, keyring, campaign, {
    from: readers_to,
    limit: PAGE,
    among: { sql: READERS, of: [campaign.audience_key] },
  })
  const since = (started_at ?? 0) - LATELY
  const mails = asMails(rows.filter(({ seen_at }) => (seen_at ?? 0) >= since))
  tx.run(
    raw('insert into written_first (campaign_key, contact_key) select ?, value from json_each(?)', [
      key,
      JSON.stringify(mails.map(({ contact }) => contact)),
    ]),
  )
  return { mails, to: { readers_to: rows.at(-1)?.key ?? DONE, walked_to } }
}

/** The next contacts that matched the segment at the start: first active readers, then the others. */
function matchesPage(tx: Tx, keyring: Keyring, campaign: Campaign): PageOfMails {
  const { key, readers_to, walked_to } = campaign
  const first = readers_to !== DONE
  const among: Among = { sql: MATCHES, of: [key, first ? 1 : 0] }
  const rows = nextContacts(tx, keyring, campaign, { from: first ? readers_to : walked_to, limit: PAGE, among })
  const to = rows.at(-1)?.key ?? DONE
  return { mails: asMails(rows), to: first ? { readers_to: to, walked_to } : { readers_to, walked_to: to } }
}

/** The next contacts. One query reads a bounded number of rows, whether they are recipients or not. */
function contactsPage(tx: Tx, keyring: Keyring, campaign: Campaign): PageOfMails {
  const { key, readers_to, walked_to: from } = campaign
  const rows = nextContacts(tx, keyring, campaign, { from, limit: PAGE })
  const to = rows.at(-1)?.key ?? DONE
  const written = tx.all(
    raw<{ contact: number }>(
      'delete from written_first where campaign_key = ? and contact_key <= ? returning contact_key as contact',
      [key, to],
    ),
  )
  const first = new Set(written.map(({ contact }) => contact))
  return { mails: asMails(rows.filter((row) => !first.has(row.key))), to: { readers_to, walked_to: to } }
}

export function lastContact(reader: Reader, audienceKey: number): number {
  return (
    reader.first(
      raw<{ last: number | null }>('select max(key) as last from contacts where audience_key = ?', [audienceKey]),
    )?.last ?? 0
  )
}
