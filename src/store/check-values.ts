// The required form of values that no digest covers: JSON that parses, times in the range of a Date, numbers and flags,
// known states; and an open delivery of a campaign must go to the recipient that its mail names. `verify` checks them.
import type Database from 'better-sqlite3'
import { LAST_TIME } from '../base/clock.ts'
import { AGENT_STATUSES } from '../states/agent.ts'
import { CAMPAIGN_STATUSES } from '../states/campaign.ts'
import { DELIVERY_STATUSES } from '../states/delivery.ts'
import { DOMAIN_STATUSES } from '../states/domain.ts'
import { INBOUND_STATUSES } from '../states/inbound-email.ts'
import { EMAIL_STATUSES } from '../states/outbound-email.ts'
import { OUTCOMES } from '../states/webhook-delivery.ts'
import { WEBHOOK_STATUSES } from '../states/webhook.ts'

/** Columns whose texts are JSON, or null; a test compares the list with the types. */
export const JSON_COLUMNS: Readonly<Record<string, string>> = {
  events: 'data',
  outbound_emails: 'cc bcc reply_to',
  outbound_bodies: 'content spool',
  outbound_webhooks: 'payload',
  inbound_messages: 'recipients',
  inbound_emails: 'recipients to cc reply_to references authentication',
  sts_policies: 'mx',
  inbound_bodies: 'headers attachments',
  webhooks: 'events',
  contacts: 'preferences custom_fields',
  campaigns: 'reply_to',
  tokens: 'scopes',
  oauth_clients: 'redirect_uris',
  passkeys: 'transports',
}

/** Columns that are 0 or 1, or null; a test compares the list with the types. */
export const FLAG_COLUMNS: Readonly<Record<string, string>> = {
  users: 'operator',
  domains: 'open_tracking_enabled click_tracking_enabled',
  records: 'required verified',
  outbound_emails: 'track_opens track_clicks opens_tracked clicks_tracked ai_disclosure',
  inbound_messages: 'cut',
  campaigns: 'test_mode require_unsubscribe_link track_opens track_clicks opens_tracked clicks_tracked',
  event_sums: 'machine',
}

/** Columns with few values, such as states, and those values; a test compares them with the types. */
export const VALUES: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  agents: { status: AGENT_STATUSES },
  attempts: { outcome: ['deferred', 'delivered', 'bounced', 'failed', 'rejected', 'suppressed'] },
  campaigns: { status: CAMPAIGN_STATUSES },
  contacts: { status: ['subscribed', 'unsubscribed', 'bounced', 'complained'] },
  deliveries: { status: DELIVERY_STATUSES, role: ['to', 'cc', 'bcc'] },
  dkim_keys: { role: ['signing', 'standby', 'retired'] },
  domains: {
    status: DOMAIN_STATUSES,
    purpose: ['transactional', 'marketing', 'both'],
    tls_policy: ['Require', 'Optional'],
    tracking_redirect_mode: ['shared', 'branded'],
    sts_mode: ['none', 'testing', 'enforce'],
    dmarc_policy: ['none', 'quarantine', 'reject'],
  },
  inbound_emails: { status: INBOUND_STATUSES },
  outbound_emails: { status: EMAIL_STATUSES },
  outbound_webhooks: { status: OUTCOMES },
  privacy_requests: { kind: ['erasure', 'export'], status: ['pending', 'done', 'failed'] },
  records: { record_type: ['DKIM', 'SPF', 'MAIL_FROM_MX', 'DMARC', 'INBOUND_MX', 'TRACKING'] },
  oauth_tokens: { kind: ['access', 'refresh'] },
  sts_policies: { mode: ['enforce', 'testing', 'none'] },
  suppressions: {
    reason: ['unsubscribe', 'hard_bounce', 'complaint', 'manual', 'list_import', 'soft_bounce'],
    scope: ['all', 'marketing'],
    source: ['smtp', 'dsn', 'arf', 'unsubscribe_link', 'unsubscribe_mail', 'manual', 'import'],
  },
  tokens: { duration: ['1_month', '6_months', '12_months'] },
  users: { subscription_state: ['active', 'past_due', 'revoked'], summary: ['none', 'daily'] },
  webhooks: { status: WEBHOOK_STATUSES, disabled_reason: ['gone', 'failures'] },
}

/** The rows for which a condition holds: their keys if the table has keys, else their number; undefined: none. */
function rowsWhere(
  database: Database.Database,
  table: string,
  condition: string,
  ...parameters: unknown[]
): string | undefined {
  const named = database.prepare(`select 1 from pragma_table_info(?) where name = 'key'`).get(table) !== undefined
  const found = database
    .prepare(`select ${named ? 'key' : `'?'`} from ${table} where ${condition} limit 20`)
    .pluck()
    .all(...parameters) as (number | string)[]
  return found.length === 0 ? undefined : named ? `row ${found.join(', ')}` : `${found.length} rows`
}

/** One sentence for each column of times that holds a value which is not a time (ms). */
function impossibleTimes(database: Database.Database): string[] {
  const columns = database
    .prepare(
      `select m.name as "table", c.name as "column" from sqlite_schema m, pragma_table_info(m.name) c
       where m.type = 'table' and m.name not like 'sqlite%' and c.type = 'integer' collate nocase
         and (c.name = 'at' or c.name like '%\\_at' escape '\\' or c.name like '%\\_until' escape '\\')`,
    )
    .all() as { table: string; column: string }[]
  return columns.flatMap(({ column, table }) => {
    const wrong = `"${column}" is not null and (typeof("${column}") <> 'integer' or "${column}" not between 0 and ${LAST_TIME})`
    const rows = rowsWhere(database, table, wrong)
    return rows ? [`${column} in ${table} is no time: ${rows}`] : []
  })
}

/**
 * One sentence for each column of numbers that holds an impossible value: all are counts, codes, keys or times.
 */
function impossibleNumbers(database: Database.Database): string[] {
  const columns = database
    .prepare(
      `select m.name as "table", c.name as "column", lower(c.type) as type from sqlite_schema m, pragma_table_info(m.name) c
       where m.type = 'table' and m.name not like 'sqlite%' and lower(c.type) in ('integer', 'real')
         and not (c.name = 'at' or c.name like '%\\_at' escape '\\' or c.name like '%\\_until' escape '\\')`,
    )
    .all() as { table: string; column: string; type: 'integer' | 'real' }[]
  return columns.flatMap(({ column, table, type }) => {
    const flag = (FLAG_COLUMNS[table] ?? '').split(' ').includes(column)
    const most = flag ? 1 : Number.MAX_SAFE_INTEGER
    const wrong = `"${column}" is not null and (typeof("${column}") <> '${type}' or "${column}" not between 0 and ${most})`
    const rows = rowsWhere(database, table, wrong)
    return rows ? [`${column} in ${table} is no ${flag ? 'yes or no' : 'such number'}: ${rows}`] : []
  })
}

/** One sentence for names of viruses that are not in the form in which the scanner's names are stored. */
function impossibleNames(database: Database.Database): string[] {
  if (database.prepare(`select 1 from pragma_table_info('inbound_messages') where name = 'virus'`).get() === undefined)
    return []
  const names = database.prepare('select key, virus from inbound_messages where virus is not null')
  const rows: number[] = []
  // In SQL a text would end at its first NUL.
  for (const { key, virus } of names.iterate() as Iterable<{ key: number; virus: string }>)
    if (!/^[\x20-\x7e]{1,200}$/.test(virus) && rows.length < 20) rows.push(key)
  return rows.length > 0 ? [`virus in inbound_messages is no name: row ${rows.join(', ')}`] : []
}

/** One sentence for each column that holds a value outside of its list. */
function unknownValues(database: Database.Database): string[] {
  const has = database.prepare('select 1 from pragma_table_info(?) where name = ?')
  return Object.entries(VALUES).flatMap(([table, columns]) =>
    Object.entries(columns).flatMap(([column, values]) => {
      if (has.get(table, column) === undefined) return []
      const unknown = `"${column}" not in (select value from json_each(?))`
      const rows = rowsWhere(database, table, unknown, JSON.stringify(values))
      return rows ? [`${column} in ${table} has an unknown value: ${rows}`] : []
    }),
  )
}

/** One sentence for each column with values that do not have the required form. Reads every such column. */
export function malformedRows(database: Database.Database): string[] {
  const has = database.prepare('select 1 from pragma_table_info(?) where name = ?')
  const found = [
    ...impossibleTimes(database),
    ...impossibleNumbers(database),
    ...impossibleNames(database),
    ...unknownValues(database),
  ]
  for (const [table, columns] of Object.entries(JSON_COLUMNS))
    for (const column of columns.split(' ')) {
      // The copy may be of an older version.
      if (has.get(table, column) === undefined) continue
      const rows = rowsWhere(database, table, `"${column}" is not null and not json_valid("${column}")`)
      if (rows) found.push(`${column} in ${table} is no JSON: ${rows}`)
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
    found.push(
      `The recipient of a campaign's mail is not the one that the mail names: row ${strayed.join(', ')} of deliveries`,
    )
  return found
}
