// A mail's body as its owner gave it, from the database or the spool; nulls once it is no longer kept.
import { readFileSync } from 'node:fs'
import type { Reader } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { Spool } from '../store/spool.ts'

const bodyByEmail = statement<{ email_key: number }>()((arg) =>
  db.selectFrom('outbound_bodies').select(['content', 'spool']).where('email_key', '=', arg.email_key),
)

export interface Body {
  html: string | null
  text: string | null
}

export function bodyOf(reader: Reader, spool: Spool, emailKey: number): Body {
  const stored = reader.first(bodyByEmail({ email_key: emailKey }))
  const json = stored?.content ?? (stored?.spool ? readFileSync(spool.path(stored.spool), 'utf8') : null)
  return json === null ? { html: null, text: null } : (JSON.parse(json) as Body)
}
