// An email's body as its owner submitted it, read from the database or the spool. All fields are null if the body is no
// longer kept.
import { jsonOf } from '../base/json.ts'
import { filesOf, readSized } from '../base/spooled.ts'
import type { Unsubscribe } from '../message/list-unsubscribe.ts'
import { mailText } from '../message/part-text.ts'
import { readBody, type StoredBody } from '../message/stored-body.ts'
import type { Reader } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { Spool } from '../store/spool.ts'

export type { StoredBody }

const bodyByEmail = statement<{ email_key: number }>()((arg) =>
  db.selectFrom('outbound_bodies').select(['content', 'spool']).where('email_key', '=', arg.email_key),
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
  const stored = reader.first(bodyByEmail({ email_key: emailKey }))
  const [file] = filesOf(stored?.spool ?? null)
  const json = stored?.content
  // If the body is corrupt or cannot be read, the rest of the email is still shown.
  const body = json ? (jsonOf(json) as StoredBody | undefined) : file === undefined ? undefined : bodyIn(spool, file)
  return body === undefined
    ? { html: null, text: null, headers: null, unsubscribe: null, attachments: null }
    : shownBody(body)
}

/** A stored body as the API shows it. */
export function shownBody(body: StoredBody): Body {
  const { headers = [], attachments = [], unsubscribe = null } = body
  return {
    ...textsOf(body),
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

/** The texts of a stored body. Texts that are part of the bytes of a submitted message are read from there. */
export function textsOf({ html, raw, text }: StoredBody): Pick<Body, 'html' | 'text'> {
  const bytes = (): Buffer => Buffer.from(raw && 'text' in raw ? raw.text : '', 'latin1')
  return { html: mailText(html, bytes), text: mailText(text, bytes) }
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

/**
 * Whether a file of the spool belongs to an email. A file without an email was left by a crash. File names begin with
 * the email's id.
 */
export function ownsFile(reader: Reader, name: string): boolean {
  const row = reader.first(withFile({ id: name.slice(0, 36) }))
  return filesOf(row?.spool ?? null).includes(name)
}
