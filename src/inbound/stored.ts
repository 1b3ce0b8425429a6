// Reads and deletes stored messages:
// the message as received with our own trace fields in front (RFC 5321 §4.4, RFC 8601), and its attachments.
import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { must, refuse } from '../base/errors.ts'
import { openSpooled } from '../base/spooled.ts'
import type { Pool } from '../base/threads/pool.ts'
import { withoutForged } from '../message/authentication.ts'
import { MAX_HEADER } from '../message/mime-tree.ts'
import { storedText } from '../message/part-text.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw, statement } from '../store/query.ts'
import type { Spool } from '../store/spool.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { InboundAttachment } from '../message/parse.ts'
import type { InboundJob, InboundResult } from './reader.ts'
import { nameOfVirus } from './scan.ts'

export interface StoredDeps {
  store: Store
  spool: Spool
  config: { hostname: string }
  inboundReader: Pick<Pool<InboundJob, InboundResult>, 'run'>
}

const messageByKey = statement<{ key: number }>()((arg) =>
  db.selectFrom('inbound_messages').selectAll().where('key', '=', arg.key),
)

const authenticationOf = statement<{ key: number }>()((arg) =>
  db.selectFrom('inbound_bodies').select('authentication').where('message_key', '=', arg.key),
)

/** The message of an inbound email. Throws 404 if it was deleted or is withheld. */
function messageOf(reader: Reader, key: number): RowOf<'inbound_messages'> {
  const message = reader.first(messageByKey({ key }))
  if (!message) throw refuse('not_found', 'The message is no longer stored. Only its attributes are available.')
  if (message.virus !== null)
    throw refuse(
      'not_found',
      `The message is withheld because it contains ${nameOfVirus(message.virus)}. It cannot be downloaded.`,
    )
  return message
}

/** The whole message as a stream, so that a message of 40 MB is never in memory as a whole. Throws 404. */
export async function rawOf(
  { config, spool, store }: Pick<StoredDeps, 'config' | 'spool' | 'store'>,
  messageKey: number,
): Promise<Response> {
  const message = messageOf(store, messageKey)
  const file = message.spool === null ? undefined : await openSpooled(spool.path(message.spool))
  const head =
    file === undefined ? Buffer.from(must(message.content, 'The content of a message')) : await beginning(file)
  const end = head.indexOf('\r\n\r\n')
  const header = head.subarray(0, end < 0 ? head.length : end)
  const found = message.authentication ?? store.first(authenticationOf({ key: messageKey }))?.authentication ?? ''
  const trace = `Return-Path: <${message.mail_from}>\r\n${found}${message.received}`
  const own = withoutForged(header.toString('latin1'), config.hostname)
  const body =
    file === undefined ? Readable.from([head.subarray(header.length)]) : file.createReadStream({ start: header.length })
  const whole = Readable.from(join(Buffer.concat([Buffer.from(trace), Buffer.from(own, 'latin1')]), body))
  return new Response(Readable.toWeb(whole) as ReadableStream, {
    headers: {
      'Content-Type': 'message/rfc822',
      'Content-Disposition': `attachment; filename="${message.id}.eml"`,
    },
  })
}

async function* join(first: Buffer, rest: Readable): AsyncIterable<Buffer> {
  yield first
  yield* rest as AsyncIterable<Buffer>
}

/** The beginning of a file. If it cannot be read, the file is closed. */
async function beginning(file: FileHandle): Promise<Buffer> {
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_HEADER), 0, MAX_HEADER, 0)
    return buffer.subarray(0, bytesRead)
  } catch (thrown) {
    await file.close()
    throw thrown
  }
}

/** The bytes of one attachment. Throws 404. */
export async function attachmentOf(
  { inboundReader, spool, store }: StoredDeps,
  messageKey: number,
  id: string,
): Promise<Response> {
  const message = messageOf(store, messageKey)
  const known = attachmentsOf(store, messageKey).find((each) => each.id === id)
  if (!known) throw refuse('not_found', 'The message has no such attachment. Check the id in "attachments".')
  const content = message.content ?? { file: spool.path(must(message.spool, 'The file of a message')) }
  const bytes = (await inboundReader.run({ task: 'attachment', content, attachment: known })) as Uint8Array | null
  const name = encodeURIComponent(known.filename ?? `attachment-${id}`).replace(
    /['()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16)}`,
  )
  return new Response(new Uint8Array(bytes ?? []), {
    headers: {
      'Content-Type': /^[\w.+-]+\/[\w.+-]+$/.test(known.content_type) ? known.content_type : 'application/octet-stream',
      'Content-Disposition': `attachment; filename*=utf-8''${name}`,
    },
  })
}

export interface InboundBody {
  headers: string
  text: string | null
  html: string | null
  attachments: string
}

interface StoredTexts {
  message_key: number
  text_part: number | null
  html_part: number | null
  /** The bytes, if a text refers to them. */
  content: Uint8Array | null
}

/** The parsed contents of some messages, by key. Without `whole` only the attachments, because texts may be large. */
export function bodiesOf(reader: Reader, keys: readonly number[], whole: boolean): Map<number, Partial<InboundBody>> {
  const list = JSON.stringify(keys)
  if (!whole) {
    const rows = reader.all(
      raw<Pick<InboundBody, 'attachments'> & { message_key: number }>(
        'select message_key, attachments from inbound_bodies where message_key in (select value from json_each(?))',
        [list],
      ),
    )
    return new Map(rows.map((row) => [row.message_key, row]))
  }
  const rows = reader.all(
    raw<InboundBody & StoredTexts>(
      `select b.*, iif(coalesce(b.text_part, b.html_part) is null, null, m.content) as content
       from inbound_bodies b join inbound_messages m on m.key = b.message_key
       where b.message_key in (select value from json_each(?))`,
      [list],
    ),
  )
  return new Map(
    rows.map(({ attachments, content, headers, html, html_part, message_key, text, text_part }) => {
      const bytes = (): Uint8Array => must(content, 'The content of a message')
      const texts = { text: storedText(text, text_part, bytes), html: storedText(html, html_part, bytes) }
      return [message_key, { attachments, headers, ...texts }]
    }),
  )
}

const attachmentsOf = (reader: Reader, messageKey: number): InboundAttachment[] =>
  JSON.parse(bodiesOf(reader, [messageKey], false).get(messageKey)?.attachments ?? '[]') as InboundAttachment[]

/** Whether a file of the spool belongs to a message. */
export function ownsFile(reader: Reader, name: string): boolean {
  return (
    reader.first(
      db.selectFrom('inbound_messages').select('key').where('spool', '=', name).where('id', '=', name.slice(0, 36)),
    ) !== undefined
  )
}

/** Deletes messages that no inbox has. Returns their files in the spool. */
export const deleteUnfiled = (tx: Tx, keys: readonly number[]): string[] =>
  tx
    .all(
      raw<{ spool: string | null }>(
        `delete from inbound_messages where key in (select value from json_each(?))
           and not exists (select 1 from inbound_emails e where e.message_key = inbound_messages.key) returning spool`,
        [JSON.stringify(keys)],
      ),
    )
    .flatMap(({ spool }) => spool ?? [])

/** Deletes messages received before a time (ms), a bounded number at once. Returns how many. */
export async function removeOld(
  { spool, store }: Pick<StoredDeps, 'spool' | 'store'>,
  before: number,
): Promise<number> {
  const gone = await store.write((tx) => {
    const old = tx.all(
      raw<{ key: number; spool: string | null }>(
        `select key, spool from inbound_messages
         where received_at < ? and not exists (select 1 from inbound_waiting w where w.message_key = key)
           and not exists (select 1 from aggregate_reports r where r.message_key = inbound_messages.key) limit 500`,
        [before],
      ),
    )
    for (const { key } of old) {
      tx.run(db.deleteFrom('inbound_emails').where('message_key', '=', key))
      tx.run(db.deleteFrom('inbound_messages').where('key', '=', key))
    }
    return old
  })
  await Promise.all(gone.flatMap((message) => (message.spool === null ? [] : [spool.remove(message.spool)])))
  return gone.length
}
