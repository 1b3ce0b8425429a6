// The columns in which an account can have a recipient's address. They determine whether an account has data about a
// recipient, and are searched if an erasure log contains only hashes. The scrub also searches files, and names that
// users chose for audiences, agents and the like.
import type { Keyring } from '../base/keyring.ts'
import { namesIn } from '../base/one-of.ts'
import { recipientHash } from '../base/recipient-hash.ts'
import { comparableOf } from '../message/address.ts'
import { columnsOf, ownedBy, TABLES, type TableName } from '../store/schema/tables.ts'
import type { Reader, Store } from '../store/database.ts'
import { about, names, needleOf } from '../store/erasing.ts'
import { raw } from '../store/query.ts'

interface HeldTable {
  table: TableName
  /** The column that orders the rows of the table. */
  key: string
  /** SQL for the texts of a row. */
  texts: readonly string[]
  /** SQL for the account's rows. Its parameter is the account's key. */
  owned: string
}

/** Texts inside the bytes of a message are searched there (D135). */
const IN_OCTETS: Partial<Record<TableName, string>> = {
  inbound_bodies: `iif(coalesce(text_part, html_part) is null, null,
    (select cast(m.content as text) from inbound_messages m where m.key = message_key))`,
}

const PLACES: readonly HeldTable[] = namesIn(TABLES).flatMap((table) => {
  const columns = columnsOf(table, ({ held }) => held === true)
  const texts = [...columns.map((name) => `"${name}"`), ...[IN_OCTETS[table] ?? []].flat()]
  return columns.length === 0 ? [] : [{ table, key: TABLES[table].by ?? 'key', texts, owned: ownedBy(table) }]
})

/** The number of rows that are read before other work can run. */
const AT_ONCE = 1000

interface TextSlice {
  texts: string[]
  /** The key from which to continue, or null at the end. */
  next: number | null
}

function slice(
  reader: Reader,
  { key, owned, table, texts }: HeldTable,
  userKey: number,
  after: number,
  needle: string,
): TextSlice {
  const rows = `select ${key} as at from ${table} where ${owned} and ${key} > ? order by ${key} limit ${AT_ONCE}`
  const end = reader.one(raw<{ end: number | null }>(`select max(at) as end from (${rows})`, [userKey, after])).end
  if (end === null) return { texts: [], next: null }
  const text = `concat_ws(char(10), ${texts.join(', ')})`
  const found = reader.all(
    raw<{ text: string }>(
      `select ${text} as text from ${table} where ${owned} and ${key} > ? and ${key} <= ? and instr(lower(${text}), ?)`,
      [userKey, after, end, needle],
    ),
  )
  return { texts: found.map((row) => row.text), next: end }
}

/**
 * SQL for the consents `c` of a recipient, even of contacts that are gone, without those that an erasure has reduced.
 * `hash` has only hexadecimal digits.
 */
const consentsBy = (hash: string): string =>
  `c.user_key = asked.user and c.state <> 'erased' and (c.recipient_hash = '${hash}'
    or c.contact_key in (select key from contacts where user_key = asked.user and email = asked.address))`

/** Whether the account has the address in any column, or a consent with its hash. Yields to other work. */
export async function holdsAddress(
  { keyring, store }: { keyring: Keyring; store: Store },
  userKey: number,
  address: string,
): Promise<boolean> {
  const known = about(
    `select 1 where exists (select 1 from contacts where user_key = asked.user and email = asked.address)
       or exists (select 1 from suppressions where user_key = asked.user and email = asked.address)
       or exists (select 1 from consents c where ${consentsBy(recipientHash(keyring, address))})`,
    userKey,
    address,
  )
  if (store.first(known)) return true
  const needle = needleOf(address)
  for (const place of PLACES)
    for (let at: number | null = 0; at !== null;) {
      const { next, texts }: TextSlice = slice(store, place, userKey, at, needle)
      if (texts.some((text) => names(text, address))) return true
      at = next
      await store.writeSoon(() => {})
    }
  return false
}

/** Keys of the rows in which one of the columns holds exactly the address, not a longer one. */
export function keysNaming(
  reader: Reader,
  table: string,
  columns: readonly string[],
  userKey: number,
  address: string,
): number[] {
  const all = `concat_ws(char(10), ${columns.map((name) => `"${name}"`).join(', ')})`
  const rows = about<{ key: number; text: string }>(
    `select key, ${all} as text from ${table} where user_key = asked.user and instr(lower(${all}), asked.needle)`,
    userKey,
    address,
  )
  return reader.all(rows).flatMap(({ key, text }) => (names(text, address) ? [key] : []))
}

/** Keys of the received messages of a recipient: from the address, to it, or with replies to it. */
export const receivedFrom = (reader: Reader, userKey: number, address: string): number[] =>
  keysNaming(reader, 'inbound_emails', ['sender', 'from', 'to', 'cc', 'reply_to'], userKey, address)

type HeldCounts = Record<'emails' | 'received' | 'contacts' | 'consents' | 'suppressions', number>

/**
 * The numbers of records about an address in an account, as an export contains them. Mentions in the text of emails are
 * not counted. Each sign-up is one of the consents.
 */
export const countsOf = (
  { keyring, store }: { keyring: Keyring; store: Reader },
  userKey: number,
  address: string,
): HeldCounts => ({
  received: receivedFrom(store, userKey, address).length,
  ...store.one(
    about<Omit<HeldCounts, 'received'>>(
      `select
         (select count(distinct d.email_key) from deliveries d join outbound_emails e on e.key = d.email_key
          where lower(d.address) = asked.address and e.user_key = asked.user) as emails,
         (select count(*) from contacts where user_key = asked.user and email = asked.address) as contacts,
         (select count(*) from consents c where ${consentsBy(recipientHash(keyring, address))}) as consents,
         (select count(*) from suppressions where user_key = asked.user and email = asked.address) as suppressions`,
      userKey,
      address,
    ),
  ),
})

/** Every address that an account holds, in lower case. */
export function addressesOf(reader: Reader, userKey: number): Set<string> {
  const all = new Set<string>()
  for (const place of PLACES)
    for (let at: number | null = 0; at !== null;) {
      const { next, texts }: TextSlice = slice(reader, place, userKey, at, '@')
      for (const text of texts) for (const address of addressesIn(text)) all.add(address)
      at = next
    }
  return all
}

/** A word, or an address with a quoted local part, as it is in text or in JSON. */
const WORD = /\\?"(?<quoted>[^"\\\s]{1,62})\\?"@(?<domain>[^\s"<>,;:()[\]\\]+)|[^\s"<>,;:()[\]\\]+/g

/** All addresses in a text, in lower case. Takes linear time for any text, because the text is untrusted. */
export function* addressesIn(text: string): Iterable<string> {
  for (const { 0: word, groups } of text.matchAll(WORD)) {
    if (!word.includes('@')) continue
    const { domain = '', quoted } = groups ?? {}
    const written = quoted === undefined ? word : `"${quoted}"@${domain}`
    const address = comparableOf(written.replace(/(?<![.'}])[.'}]+$/, ''))
    if (address !== undefined) yield address
  }
}
