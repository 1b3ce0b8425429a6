// Forgets an address in outbound mail: bodies go, recipients are marked, suppressions keep only what recognises the address. Rows stay, so
// that figures still add up.
import type { Tx } from '../store/database.ts'
import { betrays, holds, redact, type Erasing } from '../store/erasing.ts'
import { raw } from '../store/query.ts'
import { filesOf } from './body.ts'

const AT_ONCE = 100

export interface Forgotten {
  more: boolean
  /** Files of the spool that nothing refers to any more. */
  files: string[]
}

/** Works on some mails; their bodies go whole: what was written to somebody is about them. */
export function forgetInMails(tx: Tx, erasing: Erasing): Forgotten {
  const { address, userKey } = erasing
  const columns = ['"to"', '"from"', 'cc', 'bcc', 'reply_to', 'subject', 'idempotency_key', 'agent_id']
  const found = tx.all(
    raw<Record<string, string | null> & { key: number }>(
      `select key, "to", "from", cc, bcc, reply_to, subject, idempotency_key, agent_id from outbound_emails
       where user_key = ? and (${columns.map(holds).join(' or ')}
         or key in (select email_key from deliveries where lower(address) = ?)) limit ${AT_ONCE}`,
      [userKey, ...columns.map(() => address), address],
    ),
  )
  const files: string[] = []
  for (const row of found) {
    const clean = (name: string): string | null => (typeof row[name] === 'string' ? redact(row[name], erasing) : null)
    tx.run(
      raw(
        `update outbound_emails set "to" = ?, "from" = ?, cc = ?, bcc = ?, reply_to = ?, subject = '', agent_id = ?,
           idempotency_key = iif(idempotency_key is null, null, ?), payload_hash = null where key = ?`,
        [
          clean('to'),
          clean('from'),
          clean('cc'),
          clean('bcc'),
          clean('reply_to'),
          clean('agent_id'),
          `erased ${row.key}`,
          row.key,
        ],
      ),
    )
    files.push(...dropBody(tx, row.key))
    forgetDeliveries(tx, row.key, erasing)
  }
  return { more: found.length === AT_ONCE, files }
}

function dropBody(tx: Tx, emailKey: number): string[] {
  const body = tx.first(
    raw<{ spool: string | null }>('select spool from outbound_bodies where email_key = ?', [emailKey]),
  )
  tx.run(raw('delete from outbound_bodies where email_key = ?', [emailKey]))
  return filesOf(body?.spool ?? null)
}

function forgetDeliveries(tx: Tx, emailKey: number, erasing: Erasing): void {
  const rows = tx.all(
    raw<{ key: number; address: string; response: string | null }>(
      'select key, address, response from deliveries where email_key = ?',
      [emailKey],
    ),
  )
  for (const { address, key, response } of rows)
    tx.run(
      raw(
        `update deliveries set address = ?, response = ?, dialogue = null,
             status = iif(lower(address) = ? and status in ('queued', 'held'), 'suppressed', status) where key = ?`,
        [redact(address, erasing), response && redact(response, erasing), erasing.address, key],
      ),
    )
  tx.run(
    raw(
      `update outbound_emails set status = 'suppressed' where key = ? and status = 'queued'
       and exists (select 1 from deliveries where email_key = outbound_emails.key and role = 'to' and status = 'suppressed')`,
      [emailKey],
    ),
  )
}

/** Bodies of other mails that name the address. `read` gives a file of the spool. Returns where to go on; null at the end. */
export function forgetInBodies(
  tx: Tx,
  erasing: Erasing,
  after: number,
  read: (file: string) => Uint8Array,
): { next: number | null; files: string[] } {
  const found = tx.all(
    raw<{ email_key: number; content: string | null; spool: string | null }>(
      `select b.email_key, b.content, b.spool from outbound_bodies b join outbound_emails e on e.key = b.email_key
       where e.user_key = ? and b.email_key > ? order by b.email_key limit ${AT_ONCE}`,
      [erasing.userKey, after],
    ),
  )
  const files: string[] = []
  for (const { content, email_key, spool } of found) {
    const named =
      (content !== null && betrays(Buffer.from(content), erasing.address)) ||
      filesOf(spool).some((file) => betrays(read(file), erasing.address))
    if (named) files.push(...dropBody(tx, email_key))
  }
  return { next: found.length === AT_ONCE ? found.at(-1)!.email_key : null, files }
}

const AGENT_TABLES = [
  {
    table: 'agents',
    change: 'update or ignore agents set agent_id = ? where user_key = ? and agent_id = ?',
    remove: 'delete from agents where user_key = ? and agent_id = ?',
  },
  {
    table: 'tallies',
    change: 'update or ignore tallies set agent_id = ? where user_key = ? and agent_id = ?',
    remove: 'delete from tallies where user_key = ? and agent_id = ?',
  },
]

/** Ids of agents that are or hold the address; their figures stay under the mark. */
export function forgetInAgents(tx: Tx, erasing: Erasing): void {
  for (const { change, remove, table } of AGENT_TABLES) {
    const found = tx.all(
      raw<{ agent_id: string }>(`select distinct agent_id from ${table} where user_key = ? and ${holds('agent_id')}`, [
        erasing.userKey,
        erasing.address,
      ]),
    )
    for (const { agent_id } of found) tx.run(raw(change, [redact(agent_id, erasing), erasing.userKey, agent_id]))
    // Where the mark has figures of the same hour already.
    for (const { agent_id } of found) tx.run(raw(remove, [erasing.userKey, agent_id]))
  }
}

/** What must still be known of the address: that it is not written to. */
export function forgetInSuppressions(tx: Tx, { address, hash, userKey }: Erasing): void {
  tx.run(raw('update or replace suppressions set email = ? where user_key = ? and email = ?', [hash, userKey, address]))
  tx.run(
    raw('delete from soft_bounces where email = ? and domain_key in (select key from domains where user_key = ?)', [
      address,
      userKey,
    ]),
  )
}
