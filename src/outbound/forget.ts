// Erases an address from outbound mail: bodies are deleted, recipients become marks, suppressions keep only a hash.
// Rows stay, so that figures stay correct. Mail that waits for the address is not sent; mail for other recipients is
// still sent, without the address.
import { comparable } from '../base/recipient-hash.ts'
import type { Reader, Tx } from '../store/database.ts'
import { betrays, holds, names, needleOf, redact, redactMailboxes, sliceEnd, type Erasing } from '../store/erasing.ts'
import { deliveryMachine } from '../states/delivery.ts'
import { move } from '../store/move.ts'
import { raw } from '../store/query.ts'
import { forgetAttempts } from './delivery/attempt-log.ts'
import { filesOf } from '../base/spooled.ts'
import { CAMPAIGN_MAIL, emailOf, emit, moveEmail } from './delivery/settle.ts'
import { suppress } from './suppressions/suppressions.ts'

const AT_ONCE = 200
const COLUMNS = ['to', 'from', 'cc', 'bcc', 'reply_to', 'subject', 'idempotency_key', 'agent_id'] as const
const MAILBOXES = new Set<string>(['to', 'from', 'cc', 'bcc', 'reply_to'])
const OPEN = ['queued', 'active', 'held']

type Read = (file: string) => Uint8Array
type Mail = Record<(typeof COLUMNS)[number], string | null> & { key: number; domain: string | null }

interface Waiting {
  key: number
  role: string
  address: string
  status: string
  response: string | null
  dialogue: string | null
  remote_mta: string | null
}

export interface Forgotten {
  next: number | null
  /** A mail that is being sent to the address now was skipped; the next run processes it. */
  left?: boolean
  /** Files of the spool that no row names any more. */
  files: string[]
}

/** Erases in some mails. A mail that is being sent to the address now is skipped until that has ended (`underWay`). */
export function forgetInMails(tx: Tx, erasing: Erasing, after: number, read: Read): Forgotten {
  const { address, userKey } = erasing
  const end = sliceEnd(tx, { table: 'outbound_emails', userKey, after, most: AT_ONCE })
  if (end === null) return { next: null, files: [] }
  const needle = needleOf(address)
  const quoted = COLUMNS.map((name) => `e."${name}"`)
  const told = ['v.address', 'v.response', 'v.dialogue', 'v.remote_mta']
  const found = tx.all(
    raw<Mail>(
      `select e.key, ${quoted.join(', ')}, (select d.name from domains d where d.key = e.domain_key) as domain from outbound_emails e
       where e.user_key = ? and e.key > ? and e.key <= ? and (${quoted.map(holds).join(' or ')}
         or exists (select 1 from deliveries v where v.email_key = e.key and (${told.map(holds).join(' or ')})))`,
      [userKey, after, end, ...COLUMNS.map(() => needle), ...told.map(() => needle)],
    ),
  )
  const gone = found.map((mail) => forgetMail(tx, erasing, mail, read))
  return { next: end, files: gone.flatMap((files) => files ?? []), left: gone.includes(undefined) }
}

/** The files to delete; undefined: the mail is being sent to the address now, and is skipped. */
function forgetMail(tx: Tx, erasing: Erasing, mail: Mail, read: Read): string[] | undefined {
  const { address } = erasing
  const deliveries = tx.all(
    raw<Waiting>(
      'select key, role, address, status, response, dialogue, remote_mta from deliveries where email_key = ?',
      [mail.key],
    ),
  )
  const itsOwn = ({ address: to }: Waiting): boolean => comparable(to) === address
  if (deliveries.some((delivery) => itsOwn(delivery) && delivery.status === 'active')) return undefined
  const named = COLUMNS.some((name) => names(mail[name], address)) || deliveries.some(itsOwn)
  const wanted = deliveries.some((delivery) => !itsOwn(delivery) && OPEN.includes(delivery.status))
  if (named) {
    // Other recipients still wait: the mail gets a working from address of the domain, because mail cannot come from a
    // mark.
    const ours: Partial<Mail> = wanted ? { from: `noreply@${mail.domain}`, reply_to: null } : {}
    const clean = COLUMNS.map((name) =>
      name in ours && names(mail[name], address)
        ? ours[name]
        : name === 'idempotency_key' && names(mail[name], address)
          ? `erased ${mail.key}`
          : name === 'subject' && !wanted
            ? ''
            : mail[name] && (MAILBOXES.has(name) ? redactMailboxes : redact)(mail[name], erasing),
    )
    tx.run(
      raw(
        `update outbound_emails set ${COLUMNS.map((name) => `"${name}" = ?`).join(', ')}, payload_hash = null where key = ?`,
        [...clean, mail.key],
      ),
    )
  }
  forgetAttempts(tx, mail.key)
  for (const delivery of deliveries) {
    if (itsOwn(delivery) && OPEN.includes(delivery.status)) withhold(tx, mail.key, delivery, erasing)
    tx.run(
      raw('update deliveries set address = ?, response = ?, remote_mta = ?, dialogue = ? where key = ?', [
        redact(delivery.address, erasing),
        delivery.response && redact(delivery.response, erasing),
        delivery.remote_mta && redact(delivery.remote_mta, erasing),
        named || names(delivery.dialogue, address) ? null : delivery.dialogue,
        delivery.key,
      ]),
    )
  }
  return named ? forgetBody(tx, erasing, mail.key, wanted, read) : []
}

/** Cancels a delivery that waits for the address. */
function withhold(tx: Tx, emailKey: number, { key, role }: Waiting, { at }: Erasing): void {
  move(tx, deliveryMachine, key, 'suppress', { next_attempt_at: null, updated_at: at })
  const email = tx.first(emailOf({ key: emailKey }))!
  if (email.campaign_key !== null) tx.signal(CAMPAIGN_MAIL, email.user_key)
  const details = { kind: 'suppressed', response: 'The recipient was erased on request.' }
  if (role === 'to') moveEmail(tx, { email, delivery: { key }, now: at }, 'suppressed', details)
  else emit(tx, { email, delivery: { key }, now: at }, 'email.rejected', details)
}

/**
 * Deletes the body.
 * When other recipients still wait and the address can be removed from it, the body is kept without it.
 */
function forgetBody(tx: Tx, erasing: Erasing, emailKey: number, wanted: boolean, read: Read): string[] {
  const body = tx.first(
    raw<{ content: string | null; spool: string | null }>(
      'select content, spool from outbound_bodies where email_key = ?',
      [emailKey],
    ),
  )
  if (!body) return []
  const content = body.content && redact(body.content, erasing)
  const files = filesOf(body.spool)
  const clean = !names(content, erasing.address) && !files.some((file) => betrays(read(file), erasing.address))
  if (wanted && clean) {
    tx.run(raw('update outbound_bodies set content = ? where email_key = ?', [content, emailKey]))
    return []
  }
  tx.run(raw('delete from outbound_bodies where email_key = ?', [emailKey]))
  return files
}

/** Erases the address from the bodies of other mails that name it. `read` gives the content of a spool file. */
export function forgetInBodies(tx: Tx, erasing: Erasing, after: number, read: Read): Forgotten {
  const found = tx.all(
    raw<{ email_key: number; content: string | null; spool: string | null; wanted: 0 | 1 }>(
      `select b.email_key, b.content, b.spool,
         exists (select 1 from deliveries v where v.email_key = e.key and v.status in ('queued', 'active', 'held')) as wanted
       from outbound_bodies b join outbound_emails e on e.key = b.email_key
       where e.user_key = ? and b.email_key > ? order by b.email_key limit ${AT_ONCE}`,
      [erasing.userKey, after],
    ),
  )
  const files: string[] = []
  for (const { content, email_key, spool, wanted } of found) {
    const named = names(content, erasing.address) || filesOf(spool).some((file) => betrays(read(file), erasing.address))
    if (named) files.push(...forgetBody(tx, erasing, email_key, wanted === 1, read))
  }
  return { next: found.length === AT_ONCE ? found.at(-1)!.email_key : null, files }
}

/** Whether a mail is being sent to the address at this moment: its result is not written yet. */
export function underWay(reader: Reader, { address, userKey }: Erasing): boolean {
  const found = raw(
    `select 1 from deliveries v join outbound_emails e on e.key = v.email_key
     where v.status = 'active' and e.user_key = ? and lower(v.address) = ? limit 1`,
    [userKey, address],
  )
  return reader.first(found) !== undefined
}

/** The suppressions keep a hash of the address, so that it is still not written to. */
export function forgetInSuppressions(tx: Tx, { address, at, hash, userKey }: Erasing): void {
  tx.run(raw('update or replace suppressions set email = ? where user_key = ? and email = ?', [hash, userKey, address]))
  blockErased(tx, userKey, hash, at)
  tx.run(
    raw('delete from soft_bounces where email = ? and domain_key in (select key from domains where user_key = ?)', [
      address,
      userKey,
    ]),
  )
}

/**
 * Each domain keeps an entry under the hash of the erased address:
 * an old list that names it must not bring it back (D56).
 */
export function blockErased(tx: Tx, userKey: number, hash: string, at: number): void {
  const domains = tx.all(
    raw<{ key: number }>(
      `select d.key from domains d where d.user_key = ? and d.deleted_at is null and not exists (
         select 1 from suppressions s where s.domain_key = d.key and s.email = ? and s.scope = 'all' and s.expires_at is null)`,
      [userKey, hash],
    ),
  )
  for (const { key } of domains)
    suppress(
      tx,
      { user_key: userKey, domain_key: key, address: hash, reason: 'manual', source: 'manual', scope: 'all' },
      at,
    )
}

/** Agents whose name holds the address get a mark for it; their figures stay. */
export function forgetInAgents(tx: Tx, erasing: Erasing): void {
  const { address, userKey } = erasing
  const agents = tx.all(
    raw<{ agent_id: string }>(
      `select agent_id from agents where user_key = ? and ${holds('agent_id')}
       union select agent_id from tallies where user_key = ? and ${holds('agent_id')}`,
      [userKey, needleOf(address), userKey, needleOf(address)],
    ),
  )
  for (const { agent_id } of agents) {
    const mark = redact(agent_id, erasing)
    if (mark === agent_id) continue
    tx.run(
      raw('update or ignore agents set agent_id = ? where user_key = ? and agent_id = ?', [mark, userKey, agent_id]),
    )
    tx.run(raw('delete from agents where user_key = ? and agent_id = ?', [userKey, agent_id]))
    tx.run(
      raw(
        `insert into tallies (user_key, domain_key, agent_id, hour, deliveries, bounces, complaints)
         select user_key, domain_key, ?, hour, deliveries, bounces, complaints from tallies where user_key = ? and agent_id = ?
         on conflict (domain_key, agent_id, hour) do update set deliveries = tallies.deliveries + excluded.deliveries,
           bounces = tallies.bounces + excluded.bounces, complaints = tallies.complaints + excluded.complaints`,
        [mark, userKey, agent_id],
      ),
    )
    tx.run(raw('delete from tallies where user_key = ? and agent_id = ?', [userKey, agent_id]))
  }
}
