// Erases an address from outbound mail: bodies are deleted, recipients are replaced by marks, and suppressions keep
// only a hash. Rows stay, so that statistics stay correct. Mail that waits for the address is not sent. Mail for other
// recipients is still sent, without the address.
import { comparable } from '../base/recipient-hash.ts'
import type { Reader, Tx } from '../store/database.ts'
import { betrays, holds, names, needleOf, redact, redactMailboxes, sliceEnd, type Erasing } from '../store/erasing.ts'
import { db, raw } from '../store/query.ts'
import { dropUnusedBodies } from './shared-bodies.ts'
import { forgetAttempts } from '../delivery/results/attempt-log.ts'
import type { Forgotten, ReadFile } from '../parts/forget.ts'
import { jsonOf } from '../base/json.ts'
import { UNANSWERED, type OtherResult } from './batches.ts'
import { filesOf } from '../base/spooled.ts'
import { CAMPAIGN_MAIL, emailOf, suppressRecipient } from '../delivery/results/settle.ts'
import { forgetInDelivery, type NamedDelivery } from '../delivery/forget.ts'

const AT_ONCE = 200
const COLUMNS = [
  'to',
  'from',
  'cc',
  'bcc',
  'reply_to',
  'subject',
  'idempotency_key',
  'agent_id',
  'tags',
  'metadata',
] as const
const MAILBOXES = new Set<string>(['to', 'from', 'cc', 'bcc', 'reply_to'])
const OPEN = ['scheduled', 'queued', 'active', 'held']

type MailToForget = Record<(typeof COLUMNS)[number], string | null> & {
  key: number
  batch_key: number | null
  domain: string | null
}

/** Erases in some emails. An email that is being sent to the address now is skipped until it was sent (`underWay`). */
export function forgetInMails(tx: Tx, erasing: Erasing, after: number, read: ReadFile): Forgotten {
  const { address, userKey } = erasing
  const end = sliceEnd(tx, { table: 'outbound_emails', userKey, after, most: AT_ONCE })
  if (end === null) return { next: null, files: [] }
  const needle = needleOf(address)
  const quoted = COLUMNS.map((name) => `e."${name}"`)
  const columns = ['v.address', 'v.response', 'v.dialogue', 'v.remote_mta']
  const found = tx.all(
    raw<MailToForget>(
      `select e.key, e.batch_key, ${quoted.join(', ')}, (select d.name from domains d where d.key = e.domain_key) as domain from outbound_emails e
       where e.user_key = ? and e.key > ? and e.key <= ? and (${quoted.map(holds).join(' or ')}
         or exists (select 1 from deliveries v where v.email_key = e.key and (${columns.map(holds).join(' or ')})))`,
      [userKey, after, end, ...COLUMNS.map(() => needle), ...columns.map(() => needle)],
    ),
  )
  const gone = found.map((mail) => forgetMail(tx, erasing, mail, read))
  return { next: end, files: gone.flatMap((files) => files ?? []), left: gone.includes(undefined) }
}

/** The files to delete, or undefined if the email is being sent to the address now, and is skipped. */
function forgetMail(tx: Tx, erasing: Erasing, mail: MailToForget, read: ReadFile): string[] | undefined {
  const { address } = erasing
  const deliveries = tx.all(
    raw<NamedDelivery>(
      'select key, role, address, status, response, dialogue, remote_mta from deliveries where email_key = ?',
      [mail.key],
    ),
  )
  const itsOwn = ({ address: to }: NamedDelivery): boolean => comparable(to) === address
  if (deliveries.some((delivery) => itsOwn(delivery) && delivery.status === 'active')) return undefined
  const named = COLUMNS.some((name) => names(mail[name], address)) || deliveries.some(itsOwn)
  const wanted = deliveries.some((delivery) => !itsOwn(delivery) && OPEN.includes(delivery.status))
  if (named) {
    // Other recipients are still queued: the email gets a working from address of the domain, because a mark is not an
    // address.
    const ours: Partial<MailToForget> = wanted ? { from: `noreply@${mail.domain}`, reply_to: null } : {}
    const clean = COLUMNS.map((name) =>
      name in ours && names(mail[name], address)
        ? ours[name]
        : name === 'idempotency_key' && names(mail[name], address)
          ? `erased ${mail.key}`
          : name === 'subject' && !wanted
            ? ''
            : mail[name] && (MAILBOXES.has(name) ? redactMailboxes : redact)(mail[name], erasing),
    )
    tx.run(raw('update outbound_batches set payload_hash = null where key = ?', [mail.batch_key]))
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
    forgetInDelivery(tx, erasing, delivery, named)
  }
  return named ? forgetBody(tx, erasing, mail.key, wanted, read) : []
}

/** Cancels a queued delivery to the address. */
function withhold(tx: Tx, emailKey: number, delivery: NamedDelivery, { at }: Erasing): void {
  const email = tx.one(emailOf({ key: emailKey }))
  if (email.campaign_key !== null) tx.signal(CAMPAIGN_MAIL, email.user_key)
  suppressRecipient(tx, { email, delivery, now: at }, ERASED, 'erasure')
}

/**
 * Deletes the body. If other recipients are still queued and the address can be removed from it, the body is kept
 * without it.
 */
function forgetBody(tx: Tx, erasing: Erasing, emailKey: number, wanted: boolean, read: ReadFile): string[] {
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
  const email = tx.first(db.selectFrom('outbound_emails').select('batch_key').where('key', '=', emailKey))
  return [...files, ...dropUnusedBodies(tx, [email?.batch_key])]
}

/** The results without the texts of errors that name the address, even as a part of a longer word. */
function withoutErrorsOf(others: string, address: string): string {
  const results = jsonOf(others)
  if (!Array.isArray(results)) return others
  return JSON.stringify(
    (results as OtherResult[]).map((other) =>
      'errors' in other && JSON.stringify(other).toLowerCase().includes(address)
        ? { ...other, errors: other.errors.map(({ code }) => ({ code, detail: ERASED, pointer: null })) }
        : other,
    ),
  )
}
const ERASED = 'The recipient was erased on request.'

interface BatchToForget {
  key: number
  idempotency_key: string | null
  others: string
  content: string | null
  spool: string | null
  wanted: 0 | 1
}

/**
 * Erases the address from batches: from the results of their items, and from shared bodies, which are deleted if the
 * address cannot be removed from them, or if all emails of the batch have ended.
 */
export function forgetInBatches(tx: Tx, erasing: Erasing, after: number, read: ReadFile): Forgotten {
  const { address, userKey } = erasing
  const found = tx.all(
    raw<BatchToForget>(
      `select t.key, t.idempotency_key, t.others, t.content, t.spool, exists (
         select 1 from outbound_emails e join deliveries v on v.email_key = e.key
         where e.batch_key = t.key and v.status in ('scheduled', 'queued', 'active', 'held')) as wanted
       from outbound_batches t where t.user_key = ? and t.key > ? order by t.key limit ${AT_ONCE}`,
      [userKey, after],
    ),
  )
  const gone: string[] = []
  for (const { content, idempotency_key, key, others, spool, wanted } of found) {
    const files = filesOf(spool)
    const betrayed = files.some((file) => betrays(read(file), address))
    if (
      ![content, idempotency_key, others].some((text) => names(text, address)) &&
      !others.toLowerCase().includes(address) &&
      !betrayed
    )
      continue
    const clean = content && redact(content, erasing)
    const kept = !betrayed && (!names(content, address) || (wanted === 1 && !names(clean, address)))
    if (!kept) gone.push(...files)
    tx.run(
      raw(
        `update outbound_batches set payload_hash = null, idempotency_key = ?, others = ?, content = ?, spool = ?
         where key = ?`,
        [
          names(idempotency_key, address) || idempotency_key?.startsWith(UNANSWERED)
            ? `erased ${key}`
            : idempotency_key,
          redact(withoutErrorsOf(others, address), erasing),
          kept ? clean : null,
          kept ? spool : null,
          key,
        ],
      ),
    )
  }
  return { next: found.length === AT_ONCE ? (found.at(-1)?.key ?? null) : null, files: gone }
}

/** Erases the address from the bodies of other emails that name it. `read` gives the content of a spool file. */
export function forgetInBodies(tx: Tx, erasing: Erasing, after: number, read: ReadFile): Forgotten {
  const found = tx.all(
    raw<{ email_key: number; content: string | null; spool: string | null; wanted: 0 | 1 }>(
      `select b.email_key, b.content, b.spool,
         exists (select 1 from deliveries v where v.email_key = e.key and v.status in ('scheduled', 'queued', 'active', 'held')) as wanted
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
  return { next: found.length === AT_ONCE ? (found.at(-1)?.email_key ?? null) : null, files }
}

/** Whether an email is being sent to the address at this moment: its result is not written yet. */
export function underWay(reader: Reader, { address, userKey }: Erasing): boolean {
  const found = raw(
    `select 1 from deliveries v join outbound_emails e on e.key = v.email_key
     where v.status = 'active' and e.user_key = ? and lower(v.address) = ? limit 1`,
    [userKey, address],
  )
  return reader.first(found) !== undefined
}
