// Forgets an address among contacts, and where campaigns name it.
import type { Tx } from '../store/database.ts'
import { holds, redact, type Erasing } from '../store/erasing.ts'
import { raw } from '../store/query.ts'

const AT_ONCE = 50

/** Works on all contacts of the address and some campaigns that name it; true when there are more. */
export function forgetInCampaigns(tx: Tx, erasing: Erasing): boolean {
  const { address, userKey } = erasing
  tx.run(raw('delete from contacts where user_key = ? and email = ?', [userKey, address]))
  const named = tx.all(
    raw<{ key: number; name: string | null; preferences: string | null; custom_fields: string | null }>(
      `select key, name, preferences, custom_fields from contacts
       where user_key = ? and (${holds('name')} or ${holds('preferences')} or ${holds('custom_fields')}) limit ${AT_ONCE}`,
      [userKey, address, address, address],
    ),
  )
  const clean = (text: string | null): string | null => text && redact(text, erasing)
  for (const { custom_fields, key, name, preferences } of named)
    tx.run(
      raw('update contacts set name = ?, preferences = ?, custom_fields = ? where key = ?', [
        clean(name),
        clean(preferences),
        clean(custom_fields),
        key,
      ]),
    )
  const audiences = tx.all(
    raw<{ key: number; name: string; description: string | null }>(
      `select key, name, description from audiences where user_key = ? and (${holds('name')} or ${holds('description')})`,
      [userKey, address, address],
    ),
  )
  for (const { description, key, name } of audiences)
    tx.run(raw('update audiences set name = ?, description = ? where key = ?', [clean(name), clean(description), key]))
  const columns = [
    'name',
    'subject',
    'body_html',
    'body_text',
    'from_address',
    'reply_to',
    'test_recipient_email',
    'failure',
  ]
  const campaigns = tx.all(
    raw<Record<string, string | null> & { key: number }>(
      `select key, ${columns.join(', ')} from campaigns where user_key = ? and (${columns.map(holds).join(' or ')}) limit ${AT_ONCE}`,
      [userKey, ...columns.map(() => address)],
    ),
  )
  for (const row of campaigns)
    tx.run(
      raw(`update campaigns set ${columns.map((name) => `${name} = ?`).join(', ')} where key = ?`, [
        ...columns.map((name) => clean(row[name] ?? null)),
        row.key,
      ]),
    )
  return named.length === AT_ONCE || campaigns.length === AT_ONCE
}
