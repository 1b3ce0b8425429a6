// The columns in which an account may hold a recipient's address. They show whether an account has data about a
// recipient, and are searched when a ledger names addresses only by hash. The scrub searches more: files, and names
// that people chose for audiences, agents and the like.
import { namesIn } from '../base/one-of.ts'
import { comparableOf } from '../message/address.ts'
import { columnsOf, ownedBy, TABLES, type TableName } from '../schema/tables.ts'
import type { Reader, Store } from '../store/database.ts'
import { about, names, needleOf } from '../store/erasing.ts'
import { raw } from '../store/query.ts'

interface HeldTable {
  table: TableName
  /** The column that orders the rows of the table. */
  key: string
  /** SQL for the texts of a row. */
  texts: readonly string[]
  /** SQL for the account's rows; one parameter, the account's key. */
  owned: string
}

/** Texts that stand in the octets of a message are searched there (D135). */
const IN_OCTETS: Partial<Record<TableName, string>> = {
  inbound_bodies: `iif(coalesce(text_part, html_part) is null, null,
    (select cast(m.content as text) from inbound_messages m where m.key = message_key))`,
}

const PLACES: readonly HeldTable[] = namesIn(TABLES).flatMap((table) => {
  const columns = columnsOf(table, ({ held }) => held === true)
  const texts = [...columns.map((name) => `"${name}"`), ...[IN_OCTETS[table] ?? []].flat()]
  return columns.length === 0 ? [] : [{ table, key: TABLES[table].by ?? 'key', texts, owned: ownedBy(table) }]
})

/** Rows that are read at once, before other work can run. */
const AT_ONCE = 1000

interface TextSlice {
  texts: string[]
  /** The key from which to go on; null at the end. */
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

/** Whether the account holds the address anywhere. Other work can run meanwhile. */
export async function holdsAddress(store: Store, userKey: number, address: string): Promise<boolean> {
  const known = about(
    `select 1 where exists (select 1 from contacts where user_key = asked.user and email = asked.address)
       or exists (select 1 from suppressions where user_key = asked.user and email = asked.address)`,
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

/** Every address that a text holds, in lower case. It takes linear time for any text, because strangers wrote it. */
export function* addressesIn(text: string): Iterable<string> {
  for (const [word] of text.matchAll(/[^\s"<>,;:()[\]\\]+/g)) {
    if (!word.includes('@')) continue
    const address = comparableOf(word.replace(/(?<![.'}])[.'}]+$/, ''))
    if (address !== undefined) yield address
  }
}
