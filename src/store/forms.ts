// What the texts of the database must look like where no digest covers them: JSON that parses, and an open delivery of
// a campaign that goes to whom its mail names. `verify` asks it.
import type Database from 'better-sqlite3'

/** Columns whose texts are JSON, or null. */
const JSON_COLUMNS: Readonly<Record<string, string>> = {
  events: 'data',
  outbound_emails: 'cc bcc reply_to',
  outbound_bodies: 'content spool',
  outbound_webhooks: 'payload',
  inbound_messages: 'recipients',
  inbound_emails: 'authentication',
  inbound_bodies: 'headers attachments',
  webhooks: 'events',
  contacts: 'preferences custom_fields',
  campaigns: 'reply_to',
  tokens: 'scopes',
  oauth_clients: 'redirect_uris',
  passkeys: 'transports',
}

/** One sentence for each kind of row that is not of its form. Reads every such text. */
export function malformedRows(database: Database.Database): string[] {
  const has = database.prepare('select 1 from pragma_table_info(?) where name = ?')
  const found: string[] = []
  for (const [table, columns] of Object.entries(JSON_COLUMNS))
    for (const column of columns.split(' ')) {
      // The copy may be of an older version.
      if (has.get(table, column) === undefined) continue
      const keys = database
        .prepare(`select rowid from ${table} where "${column}" is not null and not json_valid("${column}") limit 20`)
        .pluck()
        .all() as number[]
      if (keys.length > 0) found.push(`${column} in ${table} is no JSON: row ${keys.join(', ')}`)
    }
  if (has.get('outbound_emails', 'campaign_key') === undefined) return found
  const strayed = database
    .prepare(
      `select d.key from deliveries d join outbound_emails e on e.key = d.email_key
       where e.campaign_key is not null and d.status in ('queued', 'active', 'held') and lower(d.address) <> lower(e."to")
       limit 20`,
    )
    .pluck()
    .all() as number[]
  if (strayed.length > 0)
    found.push(`The recipient of a campaign's mail is not whom it names: row ${strayed.join(', ')} of deliveries`)
  return found
}
