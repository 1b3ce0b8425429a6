// An email's body as its owner submitted it, read from the database or the spool, without the tokens of links that only
// its recipient may use. All fields are null if the body is no longer kept.
import { jsonOf } from '../base/json.ts'
import { filesOf, readSized } from '../base/spooled.ts'
import type { Unsubscribe } from '../message/list-unsubscribe.ts'
import { mailText } from '../message/part-text.ts'
import { hideInBody } from '../message/secret-links.ts'
import { filledBody, type Syntax } from '../message/variables.ts'
import type { TemplateValues } from '../message/template.ts'
import { readBody, type StoredBody } from '../message/stored-body.ts'
import type { Reader } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { Spool } from '../store/spool.ts'

export type { StoredBody }

const bodyByEmail = statement<{ email_key: number }>()((arg) =>
  db
    .selectFrom('outbound_bodies as b')
    .innerJoin('outbound_emails as e', 'e.key', 'b.email_key')
    .leftJoin('outbound_batches as t', 't.key', 'e.batch_key')
    .select(['b.content', 'b.spool', 't.syntax', 't.content as shared_content', 't.spool as shared_spool'])
    .where('b.email_key', '=', arg.email_key),
)

export interface Body {
  html: string | null
  text: string | null
  headers: Record<string, string> | null
  unsubscribe: Unsubscribe | null
  attachments:
    | { filename: string; content_type: string; content_id: string | null; disposition: string; size: number }[]
    | null
}

export function bodyOf(reader: Reader, spool: Spool, emailKey: number): Body {
  const body = storedBodyOf(reader, spool, emailKey)
  return body === undefined
    ? { html: null, text: null, headers: null, unsubscribe: null, attachments: null }
    : shownBody(body)
}

/** The stored body of an email with the values of its recipient, or undefined if it is not kept. */
export function storedBodyOf(reader: Reader, spool: Spool, emailKey: number): StoredBody | undefined {
  const stored = reader.first(bodyByEmail({ email_key: emailKey }))
  return stored && wholeBody(spool, stored)
}

/** The columns of a body, and of the body that its batch shares. */
interface BodyColumns {
  content: string | null
  spool: string | null
  syntax: Syntax | null
  shared_content: string | null
  shared_spool: string | null
}

/** The body with the values of its recipient, or undefined if it is not kept, corrupt, or cannot be read now. */
function wholeBody(
  spool: Spool,
  { content, shared_content, shared_spool, spool: files, syntax }: BodyColumns,
): StoredBody | undefined {
  const [file] = filesOf(syntax === null ? files : shared_spool)
  const json = syntax === null ? content : shared_content
  // If the body is corrupt, the rest of the email is still shown.
  const body = json ? (jsonOf(json) as StoredBody | undefined) : file === undefined ? undefined : bodyIn(spool, file)
  if (syntax === null || !body || body.raw) return body
  const own = content === null ? undefined : (jsonOf(content) as { values: TemplateValues } | undefined)
  return own && filledBody(syntax, body, own.values)
}

/** A stored body as the API shows it. */
export function shownBody(body: StoredBody): Body {
  const { attachments = [], headers = [], html, text, unsubscribe = null } = withoutLinks(body)
  return {
    html,
    text,
    headers: Object.fromEntries(headers),
    unsubscribe,
    attachments: attachments.map(({ filename, contentType, contentId, disposition, size }) => ({
      filename,
      content_type: contentType,
      content_id: contentId,
      disposition,
      size,
    })),
  }
}

/**
 * A stored body without the tokens of links that only the recipient may use. Texts that are part of the bytes of a
 * submitted message are read from there.
 */
export function withoutLinks(body: StoredBody): Omit<StoredBody, 'html' | 'text'> & Pick<Body, 'html' | 'text'> {
  const { html, raw, text } = body
  const bytes = (): Buffer => Buffer.from(raw && 'text' in raw ? raw.text : '', 'latin1')
  return hideInBody({ ...body, html: mailText(html, bytes), text: mailText(text, bytes) })
}

/** A body from the spool, or undefined if it is corrupt, or the disk cannot read it now. */
function bodyIn(spool: Spool, file: string): StoredBody | undefined {
  try {
    return readBody(readSized(spool.path(file)))
  } catch {
    return undefined
  }
}

const withFile = statement<{ id: string }>()((arg) =>
  db
    .selectFrom('outbound_bodies as b')
    .innerJoin('outbound_emails as e', 'e.key', 'b.email_key')
    .select('b.spool')
    .where('e.id', '=', arg.id),
)

const ofBatch = statement<{ id: string }>()((arg) =>
  db.selectFrom('outbound_batches').select('spool').where('id', '=', arg.id),
)

/**
 * Whether a file of the spool belongs to an email or to a batch. A file without one was left by a crash. File names
 * begin with the id.
 */
export function ownsFile(reader: Reader, name: string): boolean {
  const id = name.slice(0, 36)
  const row = reader.first(withFile({ id })) ?? reader.first(ofBatch({ id }))
  return filesOf(row?.spool ?? null).includes(name)
}
