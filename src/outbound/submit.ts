// Accepts a mail: checks what only the store can tell, writes the email, its body and one delivery per recipient in one
// transaction, and rings the queue's bell. When it resolves the mail is on the disk.
import { createHash } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { refuse, refuseAttribute, Refusal } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { inFamily, parseAddress, type Address } from '../message/address.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import { SPOOL_ABOVE, type Spool } from '../store/spool.ts'
import type { RowOf } from '../store/tables.ts'

export type Email = RowOf<'outbound_emails'>

export interface SubmitDesk {
  store: Store
  clock: Clock
  spool: Spool
  config: Pick<Config, 'delivery'>
  /** Tells the queue that mail for a lane is due. */
  ring: (lane: string) => void
}

export interface NewEmail {
  from: string
  to: string
  reply_to?: string[] | undefined
  subject: string
  html: string
  text?: string | null | undefined
  idempotency_key?: string | null | undefined
}

export interface Submitted {
  email: Email
  /** The key was used before with the same payload: this is the email that was made then. */
  replayed: boolean
}

const sendingDomain = statement<{ user_key: number; name: string }>()((arg) =>
  db
    .selectFrom('domains')
    .select(['key', 'name', 'status'])
    .where('user_key', '=', arg.user_key)
    .where('name', '=', arg.name)
    .where('deleted_at', 'is', null)
    // One name may stand in several regions: the one that can send comes first.
    .orderBy((eb) => eb.case().when('status', '=', 'active').then(0).else(1).end())
    .orderBy('key')
    .limit(1),
)

const subscription = statement<{ key: number }>()((arg) =>
  db.selectFrom('users').select('subscription_state').where('key', '=', arg.key),
)

const byIdempotencyKey = statement<{ user_key: number; idempotency_key: string }>()((arg) =>
  db
    .selectFrom('outbound_emails')
    .selectAll()
    .where('user_key', '=', arg.user_key)
    .where('idempotency_key', '=', arg.idempotency_key),
)

const insertEmail = statement<
  Omit<
    Email,
    'key' | 'sent_at' | 'delivered_at' | 'bounced_at' | 'complained_at' | 'rejected_at' | 'suppressed_at' | 'failed_at'
  >
>()((arg) =>
  db
    .insertInto('outbound_emails')
    .values({
      id: arg.id,
      user_key: arg.user_key,
      domain_key: arg.domain_key,
      from: arg.from,
      to: arg.to,
      reply_to: arg.reply_to,
      subject: arg.subject,
      message_id: arg.message_id,
      idempotency_key: arg.idempotency_key,
      payload_hash: arg.payload_hash,
      status: arg.status,
      queued_at: arg.queued_at,
      created_at: arg.created_at,
      updated_at: arg.updated_at,
    })
    .returningAll(),
)

const insertBody = statement<{ email_key: number; content: string | null; spool: string | null }>()((arg) =>
  db.insertInto('outbound_bodies').values({ email_key: arg.email_key, content: arg.content, spool: arg.spool }),
)

const insertDelivery = statement<{
  email_key: number
  domain_key: number
  address: string
  lane: string
  at: number
  expires_at: number
  trace: 0 | 1
}>()((arg) =>
  db.insertInto('deliveries').values({
    email_key: arg.email_key,
    domain_key: arg.domain_key,
    role: 'to',
    address: arg.address,
    lane: arg.lane,
    status: 'queued',
    attempts: 0,
    next_attempt_at: arg.at,
    expires_at: arg.expires_at,
    trace: arg.trace,
    updated_at: arg.at,
  }),
)

/** Throws 404 when no domain of the user's owns the from address; nothing when the address is malformed (422 comes later). */
export function requireSendingDomain(reader: Reader, userKey: number, from: unknown): void {
  const address = typeof from === 'string' ? parseAddress(from) : undefined
  if (address && !reader.first(sendingDomain({ user_key: userKey, name: address.domain })))
    throw refuse('not_found', `You have no sending domain ${address.domain}; register it first.`, {
      pointer: '/data/attributes/from',
    })
}

/** Submits one mail. `trace` keeps its SMTP dialogue also when all goes well. Throws a Refusal (403, 404, 409, 422). */
export async function submitEmail(
  desk: SubmitDesk,
  userKey: number,
  given: NewEmail,
  trace = false,
): Promise<Submitted> {
  const { clock, config, spool, store } = desk
  const hash = typeof given.idempotency_key === 'string' ? payloadHash(given) : null
  const earlier = hash && replay(store, userKey, given.idempotency_key!, hash)
  if (earlier) return { email: earlier, replayed: true }
  const from = parseAddress(given.from)!
  const to = parseAddress(given.to)!
  checkReplyTo(from.domain, given.reply_to ?? [])

  const now = clock.now()
  const id = newId(now)
  const content = JSON.stringify({ html: given.html, text: given.text ?? null })
  const spooled = content.length > SPOOL_ABOVE ? id : null
  if (spooled) {
    // Looked at before the disk is written, and again when it counts.
    requireSubscription(store, userKey)
    requireActive(store, userKey, from)
    await spool.put(spooled, content)
  }
  const submitted = store.write((tx): Submitted => {
    const same = hash && replay(tx, userKey, given.idempotency_key!, hash)
    if (same) return { email: same, replayed: true }
    requireSubscription(tx, userKey)
    const domain = requireActive(tx, userKey, from)
    const email = tx.first(
      insertEmail({
        id,
        user_key: userKey,
        domain_key: domain.key,
        from: given.from,
        to: given.to,
        reply_to: given.reply_to?.length ? JSON.stringify(given.reply_to) : null,
        subject: given.subject,
        message_id: `<${id}@${domain.name}>`,
        idempotency_key: given.idempotency_key ?? null,
        payload_hash: hash,
        status: 'queued',
        queued_at: now,
        created_at: now,
        updated_at: now,
      }),
    )!
    tx.run(insertBody({ email_key: email.key, content: spooled ? null : content, spool: spooled }))
    tx.run(
      insertDelivery({
        email_key: email.key,
        domain_key: domain.key,
        address: to.address,
        lane: to.domain,
        at: now,
        expires_at: now + config.delivery.lifetime,
        trace: trace ? 1 : 0,
      }),
    )
    tx.afterCommit(() => desk.ring(to.domain))
    return { email, replayed: false }
  })
  if (!spooled) return submitted
  // A file that no row came to refer to.
  const drop = () => spool.remove(spooled)
  return submitted.then(
    async (result) => {
      if (result.replayed) await drop()
      return result
    },
    async (thrown: unknown) => {
      await drop()
      throw thrown
    },
  )
}

export function requireSubscription(reader: Reader, userKey: number): void {
  if (reader.first(subscription({ key: userKey }))?.subscription_state !== 'active')
    throw refuse('subscription_inactive', 'Sending needs an active subscription; ask the operator of this server.')
}

function requireActive(reader: Reader, userKey: number, from: Address): { key: number; name: string } {
  const domain = reader.first(sendingDomain({ user_key: userKey, name: from.domain }))
  if (!domain)
    throw refuse('not_found', `You have no sending domain ${from.domain}; register it first.`, {
      pointer: '/data/attributes/from',
    })
  if (domain.status !== 'active')
    throw refuseAttribute(
      'domain_not_active',
      'from',
      `The domain ${domain.name} is ${domain.status}, not active; publish its DNS records and wait until they are verified.`,
    )
  return domain
}

function checkReplyTo(domain: string, replyTo: readonly string[]): void {
  const problems = replyTo.flatMap((text, index) => {
    const address = parseAddress(text)!
    if (inFamily(domain, address.domain)) return []
    return [
      {
        code: 'address_outside_domain' as const,
        detail: `${address.address} is outside the family of ${domain} (the domain itself, its subdomains and parents).`,
        source: { pointer: `/data/attributes/reply_to/${index}` },
      },
    ]
  })
  if (problems.length > 0) throw new Refusal(problems)
}

/** The email made earlier under this key. Throws 409 when its payload was another. */
function replay(reader: Reader | Tx, userKey: number, key: string, hash: Buffer): Email | undefined {
  const email = reader.first(byIdempotencyKey({ user_key: userKey, idempotency_key: key }))
  if (email && !hash.equals(email.payload_hash!))
    throw refuse(
      'idempotency_conflict',
      'This idempotency_key was used with a different payload; use a new key for a new email.',
      {
        pointer: '/data/attributes/idempotency_key',
      },
    )
  return email
}

/** A hash of the payload as it was understood; the order of members does not count, absent is null. */
function payloadHash({ from, to, reply_to, subject, html, text }: NewEmail): Buffer {
  return createHash('sha256')
    .update(JSON.stringify([from, to, reply_to ?? [], subject, html, text ?? null]))
    .digest()
}

/** Removes an email with its body and deliveries; what was delivered is not recalled. */
export async function deleteEmail({ store, spool }: Pick<SubmitDesk, 'store' | 'spool'>, key: number): Promise<void> {
  const file = await store.write((tx) => {
    const body = tx.first(db.selectFrom('outbound_bodies').select('spool').where('email_key', '=', key))
    tx.run(db.deleteFrom('outbound_emails').where('key', '=', key))
    return body?.spool
  })
  if (file) await spool.remove(file)
}
