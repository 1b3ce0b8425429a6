// Claims due deliveries from the queue. The attempt is written before the work (status active, attempts + 1, a lease),
// so that a crash loses no mail. A new email may be stored as claimed (D134). Attempts with a result are rows of
// `attempts`. The others that are counted ended with their process, and their result is unknown (D186).
import { HOUR } from '../../base/clock.ts'
import type { Keyring } from '../../base/keyring.ts'
import type { Reader, Store, Tx } from '../../store/database.ts'
import { storedDigest } from '../../store/digests.ts'
import { db, raw, sql, statement, type Query } from '../../store/query.ts'
import { deliveryMachine } from '../../store/states/delivery.ts'
import type { Queue } from '../../store/due.ts'
import { move, moveAll, takeAll } from '../../store/move.ts'
import { signingKeyOf } from '../../domains/keys.ts'
import { isBulk } from '../../message/lane-names.ts'
import { messageIdOf } from '../../message/identity.ts'
import { untried, type Delivery } from '../results/settle.ts'
import { knownStops } from '../../suppressions/stops.ts'
import {
  firstOf,
  type Claim,
  type ClaimedEmail,
  type MailTransaction,
  type MailSource,
  type NewClaim,
  type Sources,
} from './transaction.ts'
import { must } from '../../base/errors.ts'

type DomainFacts = Pick<
  ClaimedEmail,
  | 'domain_id'
  | 'domain'
  | 'mail_from_prefix'
  | 'tls_policy'
  | 'user_id'
  | 'tracking_redirect_mode'
  | 'links_until'
  | 'domain_digest'
>

/** Longer than any session lasts. A lease ends earlier only when its process has ended, see `releaseAll`. */
const LEASE = 4 * HOUR
export const leaseFrom = (now: number): number => now + LEASE

/** Counts the attempts of a row of `deliveries` that have a result, in SQL. */
export const ENDED = '(select count(*) from attempts a where a.delivery_key = deliveries.key)'

/** Mail without a route: no attempt has a result. */
export const UNTRIED = `${ENDED} = 0`

const onlyIn = (only: Claim['only']): string =>
  only === undefined ? '' : only === 'untried' ? ` and ${UNTRIED}` : ` and tried_day = ${only.triedOn}`

const claimRows = (tx: Tx, { lane, limit, now, only, to = lane }: Claim): Delivery[] =>
  takeAll<Delivery>(tx, deliveryMachine, 'claim', {
    set: `attempts = attempts + 1, leased_until = ?, next_attempt_at = null, updated_at = ?${to === lane ? '' : ', lane = ?'}`,
    where: `key in (select key from deliveries where status = 'queued' and lane = ? and next_attempt_at <= ?${onlyIn(only)} order by next_attempt_at limit ?)`,
    parameters: [leaseFrom(now), now, ...(to === lane ? [] : [to]), lane, now, limit],
  })

const emailsByKey = statement<{ keys: string }>()((arg) =>
  db
    .selectFrom('outbound_emails as e')
    .leftJoin('outbound_bodies as b', 'b.email_key', 'e.key')
    .leftJoin('outbound_batches as t', 't.key', 'e.batch_key')
    .select([
      storedDigest('outbound_batches', 't.key').as('batch_digest'),
      't.syntax as batch_syntax',
      't.content as batch_content',
      't.spool as batch_spool',
      storedDigest('outbound_emails', 'e.key').as('email_digest'),
      storedDigest('outbound_bodies', 'e.key').as('body_digest'),
      'e.key',
      'e.id',
      'e.user_key',
      'e.domain_key',
      'e.campaign_key',
      'e.contact_key',
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
      'e.message_id',
      'e.scheduled_at',
      'e.created_at',
      'b.content',
      'b.spool',
    ])
    .where(sql<boolean>`e.key in (select value from json_each(${arg.keys}))`),
)

const bulkEmails = statement<{ keys: string }>()((arg) =>
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
    .where(sql<boolean>`key in (select value from json_each(${arg.keys}))`),
)

const domainFacts = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('domains as d')
    .innerJoin('users as u', 'u.key', 'd.user_key')
    .select([
      storedDigest('domains', 'd.key').as('domain_digest'),
      'd.id as domain_id',
      'd.name as domain',
      'd.mail_from_prefix',
      'd.tls_policy',
      'd.tracking_redirect_mode',
      'u.id as user_id',
    ])
    .select((eb) =>
      eb
        .selectFrom('records as r')
        .select('r.certificate_until')
        .whereRef('r.domain_key', '=', 'd.key')
        .where('r.record_type', '=', 'TRACKING')
        .where('r.verified', '=', 1)
        .limit(1)
        .as('links_until'),
    )
    .where('d.key', '=', arg.key),
)

/** The columns of an email that was just written, and has a body of its own. */
const UNSHARED = {
  email_digest: null,
  body_digest: null,
  batch_syntax: null,
  batch_content: null,
  batch_spool: null,
  batch_digest: null,
}

/** Columns that are empty in the emails of a campaign, because the campaign has the values. */
const LEAN = {
  from: '',
  cc: null,
  bcc: null,
  reply_to: null,
  subject: '',
  agent_id: null,
  scheduled_at: null,
  ai_disclosure: null,
  content: null,
  spool: null,
  ...UNSHARED,
}

/** The emails of claimed deliveries, by key. Each statement reads all of them. */
const emailsOf = <Row extends { key: number }>(
  tx: Tx,
  deliveries: readonly Delivery[],
  query: (args: { keys: string }) => Query<Row>,
): Map<number, Row> => {
  const keys = JSON.stringify([...new Set(deliveries.map(({ email_key }) => email_key))])
  return new Map(tx.all(query({ keys })).map((row) => [row.key, row]))
}

/** The keys of the emails that do not belong to a campaign. */
export const submittedIn = (reader: Reader, deliveries: readonly Pick<Delivery, 'email_key'>[]): Set<number> =>
  new Set(
    reader
      .all(
        raw<{ key: number }>(
          'select key from outbound_emails where campaign_key is null and key in (select value from json_each(?))',
          [JSON.stringify(deliveries.map(({ email_key }) => email_key))],
        ),
      )
      .map(({ key }) => key),
  )

/** Claims due email of a lane. A lane of bulk email can have email of both sources. */
export function claimDue(tx: Tx, { campaign, submitted }: Sources, claim: Claim): MailTransaction[] {
  const deliveries = claimRows(tx, claim)
  if (deliveries.length === 0) return []
  const on = { lane: claim.to ?? claim.lane, now: claim.now }
  if (!isBulk(claim.lane)) return submitted.claimed(tx, deliveries, on)
  const keys = submittedIn(tx, deliveries)
  const of = (source: MailSource, isTheirs: (delivery: Delivery) => boolean): MailTransaction[] => {
    const theirs = deliveries.filter(isTheirs)
    return theirs.length === 0 ? [] : source.claimed(tx, theirs, on)
  }
  return [
    ...of(submitted, ({ email_key }) => keys.has(email_key)),
    ...of(campaign, ({ email_key }) => !keys.has(email_key)),
  ]
}

/** The scope of the suppressions that stop email on a lane. */
export const scopeOf = (lane: string): 'all' | 'marketing' => (isBulk(lane) ? 'marketing' : 'all')

/** The claimed emails of campaigns, one recipient each. */
export function campaignMail(
  tx: Tx,
  source: MailSource,
  keyring: Keyring,
  claimed: readonly Delivery[],
  { lane, now }: { lane: string; now: number },
): MailTransaction[] {
  const emails = emailsOf(tx, claimed, bulkEmails)
  const { generation, stops } = knownStops(tx, keyring, claimed, now, 'marketing')
  return claimed.map((delivery, index) => {
    const row = must(emails.get(delivery.email_key), 'The mail of a delivery')
    const facts = tx.fact(domainFacts({ key: delivery.domain_key })) as DomainFacts
    const email = { ...LEAN, ...facts, ...row, message_id: messageIdOf(row.id, facts.domain) } as ClaimedEmail
    const known = { generation, stops: [stops[index]] }
    return { lane, source, email, deliveries: [delivery], signingKey: signingKeyOf(tx, delivery.domain_key), known }
  })
}

/** The claimed submitted emails, grouped by email. */
export function submittedMail(
  tx: Tx,
  source: MailSource,
  keyring: Keyring,
  claimed: readonly Delivery[],
  { lane, now }: { lane: string; now: number },
): MailTransaction[] {
  const emails = emailsOf(tx, claimed, emailsByKey)
  const { generation, stops } = knownStops(tx, keyring, claimed, now, scopeOf(lane))
  const removals = tx.generation('outbound_emails', 'removed')
  const groups = new Map<number, MailTransaction>()
  for (const [index, delivery] of claimed.entries()) {
    const { domain_key, email_key } = delivery
    let group = groups.get(email_key)
    if (!group) {
      const facts = tx.fact(domainFacts({ key: domain_key })) as DomainFacts
      const email = { ...facts, ...must(emails.get(email_key), 'The mail of a delivery') } as ClaimedEmail
      const known = { generation, stops: [], removals }
      group = { lane, source, email, deliveries: [], signingKey: signingKeyOf(tx, domain_key), known }
      groups.set(email_key, group)
    }
    group.deliveries.push(delivery)
    group.known.stops.push(stops[index])
  }
  return [...groups.values()]
}

/**
 * A stored email with its recipients, as it would be claimed, or undefined if the email or its recipients do not exist.
 */
export function mailWith(
  reader: Reader,
  emailKey: number,
  deliveries: readonly Delivery[],
): Pick<MailTransaction, 'deliveries' | 'email'> | undefined {
  const row = reader.first(emailsByKey({ keys: JSON.stringify([emailKey]) }))
  if (!row || deliveries.length === 0) return undefined
  const facts = reader.fact(domainFacts({ key: row.domain_key })) as DomainFacts
  const shared = row.campaign_key === null ? {} : { ...LEAN, message_id: messageIdOf(row.id, facts.domain) }
  return { email: { ...facts, ...row, ...shared } as ClaimedEmail, deliveries: [...deliveries] }
}

/** The columns of a new mail that its transaction holds. */
export type NewMail = Omit<ClaimedEmail, keyof DomainFacts | keyof typeof UNSHARED>

/**
 * A new mail as it is claimed in the transaction that stores it, after its recipients were found free of stops. Its
 * texts do not come from the database, so no digest is compared with them.
 */
export function claimedNew(
  tx: Tx,
  { slot, source }: Pick<NewClaim, 'slot' | 'source'>,
  email: NewMail,
  deliveries: readonly Delivery[],
): MailTransaction {
  const { domain_key, lane } = firstOf({ deliveries })
  const facts = tx.fact(domainFacts({ key: domain_key })) as DomainFacts
  return {
    lane,
    source,
    email: { ...facts, ...email, ...UNSHARED },
    deliveries: [...deliveries],
    signingKey: signingKeyOf(tx, domain_key),
    known: {
      generation: tx.generation('suppressions', 'changed'),
      stops: deliveries.map(() => undefined),
      removals: tx.generation('outbound_emails', 'removed'),
    },
    ...(slot ? { slot } : {}),
  }
}

/** The queue of mail, grouped by lanes. */
export const LANES: Queue = { table: 'deliveries', group: 'lane', status: 'queued' }

/** Whether a lane has mail that became due between two times. */
export function becameDue(reader: Reader, lane: string, after: number, until: number): boolean {
  const due = raw(
    `select 1 from deliveries where status = 'queued' and lane = ? and next_attempt_at > ? and next_attempt_at <= ? limit 1`,
    [lane, after, until],
  )
  return reader.first(due) !== undefined
}

/** Releases deliveries whose lease has expired: their result could not be written, and no session lasts that long. */
export const releaseLapsed = (store: Store, now: number): Promise<number> =>
  store.write((tx) => lapse(tx, `leased_until <= ${now}`, now))

/** At start: releases the deliveries that an ended process had claimed. Returns how many. */
export const releaseAll = (store: Store, now: number): Promise<number> => store.write((tx) => lapse(tx, 'true', now))

/** Puts claimed deliveries without an attempt back into the queue. */
export function unclaim(tx: Tx, { deliveries, slot }: Pick<MailTransaction, 'deliveries' | 'slot'>, now: number): void {
  slot?.giveBack(tx, deliveries)
  for (const delivery of deliveries)
    move(tx, deliveryMachine, delivery.key, 'lapse', { leased_until: null, next_attempt_at: now, ...untried(delivery) })
}

/** Writes the day on which recipients were counted in a daily limit (parts/gate.ts). */
export function markCounted(tx: Tx, deliveries: readonly { key: number }[], day: number | null): void {
  if (deliveries.length === 0) return
  const keys = JSON.stringify(deliveries.map(({ key }) => key))
  tx.run(raw('update deliveries set tried_day = ? where key in (select value from json_each(?))', [day, keys]))
}

/** Makes email due immediately, even if its attempt was interrupted several times (D204). */
export const lapse = (tx: Tx, where: string, now: number): number =>
  moveAll(tx, deliveryMachine, 'lapse', {
    set: 'leased_until = null, next_attempt_at = ?, updated_at = ?',
    where,
    parameters: [now, now],
  })
