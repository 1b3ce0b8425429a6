// Claims due deliveries from the queue. The attempt is written before the work (status active, attempts + 1, a lease):
// after a crash it counts as an attempt, and no mail is lost.
import { HOUR } from '../base/clock.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { digestNumber } from '../store/digests.ts'
import { db, raw, statement } from '../store/query.ts'
import { deliveryMachine } from '../states/delivery.ts'
import type { Queue } from '../store/due.ts'
import { moveAll, takeAll } from '../store/move.ts'
import { signingKeyOf, type SignedWith } from '../domains/keys.ts'
import type { Delivery } from './settle.ts'

/** The content of one SMTP transaction: an email and its recipients on one lane. */
export interface Consignment {
  lane: string
  email: ClaimedEmail
  deliveries: Delivery[]
  /** The DKIM key to sign with, or why there is none. */
  signingKey: SignedWith
  /** How many connections refused it at MAIL. */
  refusals?: number
}

export interface ClaimedEmail {
  key: number
  id: string
  user_key: number
  domain_key: number
  /** Set for a campaign's mail: then the fields that are '' here are columns of the campaign. */
  campaign_key: number | null
  contact_key: number | null
  domain_id: string
  domain: string
  mail_from_prefix: string
  tls_policy: 'Require' | 'Optional'
  user_id: string
  from: string
  to: string
  cc: string | null
  bcc: string | null
  reply_to: string | null
  subject: string
  agent_id: string | null
  opens_tracked: 0 | 1
  clicks_tracked: 0 | 1
  ai_disclosure: 0 | 1 | null
  tracking_redirect_mode: 'shared' | 'branded'
  /** Whether DNS has the record of the branded tracking host. */
  branded: 0 | 1
  message_id: string
  created_at: number
  content: string | null
  spool: string | null
  /** What was written when it was accepted (store/digests.ts); null: unknown. */
  email_digest: Uint8Array | null
  body_digest: Uint8Array | null
  domain_digest: Uint8Array | null
}

/** Longer than any session lasts. A lease ends earlier only when its process has ended, see `releaseAll`. */
const LEASE = 4 * HOUR

const claimRows = (tx: Tx, lane: string, now: number, limit: number): Delivery[] =>
  takeAll<Delivery>(tx, deliveryMachine, 'claim', {
    set: 'attempts = attempts + 1, leased_until = ?, next_attempt_at = null, updated_at = ?',
    where: `key in (select key from deliveries where status = 'queued' and lane = ? and next_attempt_at <= ? order by next_attempt_at limit ?)`,
    parameters: [now + LEASE, now, lane, now, limit],
  })

const [OF_EMAIL, OF_BODY, OF_DOMAIN] = ['outbound_emails', 'outbound_bodies', 'domains'].map(digestNumber) as [
  number,
  number,
  number,
]

const emailByKey = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('outbound_emails as e')
    .innerJoin('domains as d', 'd.key', 'e.domain_key')
    .innerJoin('users as u', 'u.key', 'e.user_key')
    .leftJoin('outbound_bodies as b', 'b.email_key', 'e.key')
    .leftJoin('digests as de', (on) => on.on('de.of', '=', OF_EMAIL).onRef('de.row_key', '=', 'e.key'))
    .leftJoin('digests as db', (on) => on.on('db.of', '=', OF_BODY).onRef('db.row_key', '=', 'e.key'))
    .leftJoin('digests as dd', (on) => on.on('dd.of', '=', OF_DOMAIN).onRef('dd.row_key', '=', 'd.key'))
    .select([
      'de.digest as email_digest',
      'db.digest as body_digest',
      'dd.digest as domain_digest',
      'e.key',
      'e.id',
      'e.user_key',
      'e.domain_key',
      'e.campaign_key',
      'e.contact_key',
      'd.id as domain_id',
      'd.name as domain',
      'd.mail_from_prefix',
      'd.tls_policy',
      'u.id as user_id',
      'e.from',
      'e.to',
      'e.cc',
      'e.bcc',
      'e.reply_to',
      'e.subject',
      'e.agent_id',
      'e.opens_tracked',
      'e.clicks_tracked',
      'e.ai_disclosure',
      'd.tracking_redirect_mode',
      'e.message_id',
      'e.created_at',
      'b.content',
      'b.spool',
    ])
    .select((eb) =>
      eb
        .and([
          // Only for branded domains: otherwise the records would be read for every mail.
          eb('d.tracking_redirect_mode', '=', 'branded'),
          eb.exists(
            eb
              .selectFrom('records as r')
              .select('r.key')
              .whereRef('r.domain_key', '=', 'd.key')
              .where('r.record_type', '=', 'TRACKING')
              .where('r.verified', '=', 1),
          ),
        ])
        .as('branded'),
    )
    .where('e.key', '=', arg.key),
)

const bulkEmail = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('outbound_emails')
    .select([
      'key',
      'id',
      'user_key',
      'domain_key',
      'campaign_key',
      'contact_key',
      'to',
      'opens_tracked',
      'clicks_tracked',
      'created_at',
    ])
    .where('key', '=', arg.key),
)

const domainFacts = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('domains as d')
    .innerJoin('users as u', 'u.key', 'd.user_key')
    .leftJoin('digests as dd', (on) => on.on('dd.of', '=', OF_DOMAIN).onRef('dd.row_key', '=', 'd.key'))
    .select([
      'dd.digest as domain_digest',
      'd.id as domain_id',
      'd.name as domain',
      'd.mail_from_prefix',
      'd.tls_policy',
      'd.tracking_redirect_mode',
      'u.id as user_id',
    ])
    .select((eb) =>
      eb
        .exists(
          eb
            .selectFrom('records as r')
            .select('r.key')
            .whereRef('r.domain_key', '=', 'd.key')
            .where('r.record_type', '=', 'TRACKING')
            .where('r.verified', '=', 1),
        )
        .as('branded'),
    )
    .where('d.key', '=', arg.key),
)

/** Columns that a campaign has once, and its mails leave empty. */
const LEAN = {
  from: '',
  cc: null,
  bcc: null,
  reply_to: null,
  subject: '',
  agent_id: null,
  ai_disclosure: null,
  content: null,
  spool: null,
  email_digest: null,
  body_digest: null,
}

/** Claims mails of campaigns, one recipient each. Facts that mails of one domain share are read once. */
export function claimBulk(tx: Tx, lane: string, now: number, limit: number): Consignment[] {
  const domains = new Map<number, { facts: Pick<ClaimedEmail, 'domain' | 'domain_id'>; signingKey: SignedWith }>()
  return claimRows(tx, lane, now, limit).map((delivery) => {
    const { domain_key } = delivery
    let known = domains.get(domain_key)
    if (!known) {
      const facts = tx.first(domainFacts({ key: domain_key })) as Pick<ClaimedEmail, 'domain' | 'domain_id'>
      known = { facts, signingKey: signingKeyOf(tx, domain_key) }
      domains.set(domain_key, known)
    }
    const row = tx.first(bulkEmail({ key: delivery.email_key }))!
    const message_id = `<${row.id}@${known.facts.domain}>`
    const email = { ...LEAN, ...known.facts, ...row, message_id } as ClaimedEmail
    return { lane, email, deliveries: [delivery], signingKey: known.signingKey }
  })
}

/** Claims up to `limit` deliveries of a lane, grouped by email. */
export function claimLane(tx: Tx, lane: string, now: number, limit: number): Consignment[] {
  const groups = new Map<number, Consignment>()
  const keys = new Map<number, SignedWith>()
  for (const delivery of claimRows(tx, lane, now, limit)) {
    const { domain_key, email_key } = delivery
    const group = groups.get(email_key)
    if (group) {
      group.deliveries.push(delivery)
      continue
    }
    if (!keys.has(domain_key)) keys.set(domain_key, signingKeyOf(tx, domain_key))
    const email = tx.first(emailByKey({ key: email_key })) as ClaimedEmail
    groups.set(email_key, { lane, email, deliveries: [delivery], signingKey: keys.get(domain_key) })
  }
  return [...groups.values()]
}

/** Queued mail, by lanes. */
export const LANES: Queue = { table: 'deliveries', group: 'lane', status: 'queued' }

/** Whether a lane holds mail that fell due between two times. */
export function becameDue(reader: Reader, lane: string, after: number, until: number): boolean {
  const due = raw(
    `select 1 from deliveries where status = 'queued' and lane = ? and next_attempt_at > ? and next_attempt_at <= ? limit 1`,
    [lane, after, until],
  )
  return reader.first(due) !== undefined
}

/** Releases deliveries whose lease has run out: their end could not be written, and no session lasts that long. */
export const releaseLapsed = (store: Store, now: number): Promise<number> =>
  store.write((tx) => lapse(tx, 'leased_until <= ?', now, now))

/** At start: releases the deliveries that an ended process had claimed. Returns how many. */
export const releaseAll = (store: Store, now: number): Promise<number> => store.write((tx) => lapse(tx, 'true', now))

const lapse = (tx: Tx, where: string, now: number, ...parameters: number[]): number =>
  moveAll(tx, deliveryMachine, 'lapse', {
    set: 'leased_until = null, next_attempt_at = ?, updated_at = ?',
    where,
    parameters: [now, now, ...parameters],
  })
