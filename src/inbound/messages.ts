// The messages of an inbox as an email client lists them: whether a message was read, the start of its text, and the
// email of ours that it answers. Also removes a message.
import { forLine } from '../base/clean-text.ts'
import { plainText } from '../message/compose.ts'
import { storedText } from '../message/part-text.ts'
import type { Reader, Store } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { Spool } from '../store/spool.ts'

/** The most characters of a snippet, and of the text and the HTML that are read for it. */
const SNIPPET = 140
const READ_TEXT = 1000
const READ_HTML = 20_000

interface BodyStart {
  message_key: number
  attachments: number
  text: string | null
  html: string | null
  text_part: number | null
  html_part: number | null
  content: Uint8Array | null
}

/** The contents of a message that a row of a list shows. */
export interface Glance {
  snippet: string
  attachments: number
}

/** The contents of some messages at a glance, by their keys. Only the beginning of a text is read. */
export function glancesOf(reader: Reader, keys: readonly number[]): Map<number, Glance> {
  const rows = reader.all(
    raw<BodyStart>(
      `select b.message_key, json_array_length(b.attachments) as attachments, substr(b.text, 1, ?) as text,
         substr(b.html, 1, ?) as html, b.text_part, b.html_part,
         iif(coalesce(b.text_part, b.html_part) is null, null, m.content) as content
       from inbound_bodies b join inbound_messages m on m.key = b.message_key
       where b.message_key in (select value from json_each(?))`,
      [READ_TEXT, READ_HTML, JSON.stringify(keys)],
    ),
  )
  return new Map(rows.map((row) => [row.message_key, { attachments: row.attachments, snippet: snippetOf(row) }]))
}

function snippetOf({ content, html, html_part, text, text_part }: BodyStart): string {
  const bytes = (): Uint8Array => content ?? new Uint8Array()
  const words = storedText(text, text_part, bytes)
  if (words !== null && words.trim() !== '') return shortened(words.slice(0, READ_TEXT))
  const page = storedText(html, html_part, bytes)?.slice(0, READ_HTML) ?? ''
  // The part before the body is not visible text.
  const body = Math.max(0, page.search(/<body/i))
  return shortened(plainText(page.slice(body, body + 4 * READ_TEXT)))
}

const shortened = (text: string): string => forLine(text.replace(/\s+/g, ' ')).slice(0, SNIPPET).trim().toWellFormed()

/** How many of the ids that a message refers to are checked, from the end, where the newest ones are. */
const MOST_REFERENCES = 20

/** The id of the account's email that a message answers, or null if it does not answer one of them. */
export function answeredMail(
  reader: Reader,
  { in_reply_to, references, user_key }: { in_reply_to: string | null; references: string; user_key: number },
): string | null {
  const named = [in_reply_to ?? '', ...(JSON.parse(references) as string[]).slice(-MOST_REFERENCES).toReversed()]
  // The Message-ID of an email begins with its id (message/identity.ts).
  for (const id of named.flatMap((each) => /^<?([0-9a-f-]{36})@/.exec(each)?.[1] ?? [])) {
    const mail = reader.first(
      raw<{ id: string }>('select id from outbound_emails where id = ? and user_key = ?', [id, user_key]),
    )
    if (mail) return mail.id
  }
  return null
}

/** The most messages that are counted. */
export const MOST_UNREAD = 1000

/** How many messages of an inbox are unread, at most MOST_UNREAD. */
export const unreadIn = (reader: Reader, inboxKey: number): number =>
  reader.one(
    raw<{ unread: number }>(
      'select count(*) as unread from (select 1 from inbound_emails where inbox_key = ? and seen = 0 limit ?)',
      [inboxKey, MOST_UNREAD],
    ),
  ).unread

/** Notes whether a message was read. */
export const setSeen = (store: Store, key: number, seen: boolean): Promise<void> =>
  store.write((tx) => void tx.run(raw('update inbound_emails set seen = ? where key = ?', [seen ? 1 : 0, key])))

/** Removes a message from its inbox. Its bytes are deleted with the last inbox that has it. */
export async function removeMessage(
  { spool, store }: { store: Store; spool: Spool },
  { key, message_key }: { key: number; message_key: number },
): Promise<void> {
  const file = await store.write((tx) => {
    tx.run(raw('delete from inbound_emails where key = ?', [key]))
    const kept = raw(
      `select 1 from inbound_emails where message_key = ?
       union all select 1 from aggregate_reports where message_key = ? limit 1`,
      [message_key, message_key],
    )
    if (tx.first(kept)) return null
    const message = tx.first(
      raw<{ spool: string | null }>('select spool from inbound_messages where key = ?', [message_key]),
    )
    tx.run(raw('delete from inbound_messages where key = ?', [message_key]))
    return message?.spool ?? null
  })
  if (file !== null) await spool.remove(file)
}
