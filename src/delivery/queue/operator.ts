// The operator's commands for the queue: show, retry now, hold, release, drop.
import type { Clock } from '../../base/clock.ts'
import { identityOf, taggedOf } from '../../message/identity.ts'
import { deliveryMachine, type DeliveryMove } from '../../store/states/delivery.ts'
import type { Reader, Store, Tx } from '../../store/database.ts'
import { move } from '../../store/move.ts'
import { db, raw, sql } from '../../store/query.ts'
import { domainOf } from '../../message/lane-names.ts'
import { heldLanes, holdLane, lanesOf } from './waiting.ts'
import { unclaim } from './claim.ts'
import { firstOf, type MailTransaction } from './transaction.ts'
import { emit, moveEmail, type Delivery, type EmailKeys } from '../results/settle.ts'

export interface QueuedMail {
  id: string
  message_id: string
  from: string
  to: string
  subject: string
  status: string
  created_at: number
  deliveries: Delivery[]
  /** The name of the email's campaign if it is paused: its mail is held until it resumes. */
  paused_campaign: string | null
  /** The recipient domains that the operator holds. */
  holds: ReadonlySet<string>
}

const MAX_LISTED = 1000
/** The columns of a result without an answer of a server. */
const NOBODY_SAID = { smtp_code: null, enhanced_code: null, remote_mta: null }

/** Columns of an email, of its campaign and contact, and of its sending domain, for `identityOf`. */
const COLUMNS = [
  'e.key',
  'e.id',
  'e.to',
  'e.status',
  'e.created_at',
  'e.from',
  'e.subject',
  'e.message_id',
  'c.from_address',
  'c.subject as campaign_subject',
  'c.name as campaign_name',
  'c.status as campaign_status',
  'c.test_mode',
  'p.email as contact_email',
  'p.name as contact_name',
  'p.custom_fields',
  'd.name as domain',
] as const

type OperatorRow = Omit<QueuedMail, 'deliveries' | 'holds' | 'paused_campaign'> & {
  key: number
  from_address: string | null
  campaign_subject: string | null
  campaign_name: string | null
  campaign_status: string | null
  test_mode: number | null
  contact_email: string | null
  contact_name: string | null
  custom_fields: string | null
  domain: string
}

/** A search for emails by a recipient's address, in any case. */
export interface Sought {
  address: string
  /** The sending domain. */
  domain?: string | undefined
  /** Accepted at or after (ms). */
  since?: number | undefined
}

/** Emails to an address, newest first. It reads all mail, so it is for an operator's command, not for frequent use. */
export function findMails(reader: Reader, { address, domain, since = 0 }: Sought): QueuedMail[] {
  let found = db
    .selectFrom('outbound_emails as e')
    .innerJoin('domains as d', 'd.key', 'e.domain_key')
    .leftJoin('campaigns as c', 'c.key', 'e.campaign_key')
    .leftJoin('contacts as p', 'p.key', 'e.contact_key')
    .select(COLUMNS)
    .where('e.created_at', '>=', since)
    .where('e.key', 'in', (eb) =>
      eb
        .selectFrom('deliveries')
        .select('email_key')
        .where(sql`lower(address)`, '=', address.toLowerCase()),
    )
    .orderBy('e.key', 'desc')
    .limit(MAX_LISTED)
  if (domain !== undefined) found = found.where('d.name', '=', domain)
  const holds = heldLanes(reader)
  return reader.all(found).map((row) => withDeliveries(reader, row, holds))
}

/** Emails that still have an undecided recipient, oldest first, of one sending domain or of all. */
export function listQueue(reader: Reader, domain?: string): QueuedMail[] {
  const waiting = db
    .selectFrom('outbound_emails as e')
    .innerJoin('domains as d', 'd.key', 'e.domain_key')
    .leftJoin('campaigns as c', 'c.key', 'e.campaign_key')
    .leftJoin('contacts as p', 'p.key', 'e.contact_key')
    .select(COLUMNS)
    .where('e.key', 'in', (eb) =>
      eb.selectFrom('deliveries').select('email_key').where('status', 'in', ['queued', 'active', 'held']),
    )
    .orderBy('e.key')
    .limit(MAX_LISTED)
  const holds = heldLanes(reader)
  return reader
    .all(domain === undefined ? waiting : waiting.where('d.name', '=', domain))
    .map((row) => withDeliveries(reader, row, holds))
}

/** One email with its recipients, by its id, or undefined. */
export function showQueued(reader: Reader, id: string): QueuedMail | undefined {
  const row = reader.first(
    db
      .selectFrom('outbound_emails as e')
      .innerJoin('domains as d', 'd.key', 'e.domain_key')
      .leftJoin('campaigns as c', 'c.key', 'e.campaign_key')
      .leftJoin('contacts as p', 'p.key', 'e.contact_key')
      .select(COLUMNS)
      .where('e.id', '=', id),
  )
  return row && withDeliveries(reader, row, heldLanes(reader))
}

function withDeliveries(reader: Reader, row: OperatorRow, holds: ReadonlySet<string>): QueuedMail {
  const { key, domain, campaign_name, campaign_status, campaign_subject, from_address, ...rest } = row
  const paused_campaign = campaign_status === 'paused' ? campaign_name : null
  const { contact_email: email, contact_name: name, custom_fields, test_mode, ...mail } = rest
  const campaign = campaign_subject === null ? undefined : { from_address, subject: campaign_subject }
  const to = taggedOf({ email, name, custom_fields }, { test_mode, to: mail.to })
  const deliveries = deliveriesOf(reader, [key])
  return { ...mail, ...identityOf(mail, campaign, domain, to), paused_campaign, deliveries, holds }
}

export function deliveriesOf(reader: Reader, emailKeys: readonly number[]): Delivery[] {
  return reader.all(
    raw<Delivery>(`select * from deliveries where email_key in (select value from json_each(?)) order by key`, [
      JSON.stringify(emailKeys),
    ]),
  )
}

/** Makes queued deliveries due now: of one email, or all when no id is given. Returns how many. */
export function retryNow({ store, clock }: { store: Store; clock: Clock }, id: string | undefined): Promise<number> {
  const now = clock.now()
  const queued = db.updateTable('deliveries').set({ next_attempt_at: now }).where('status', '=', 'queued')
  return store.write(
    (tx) =>
      tx.run(
        id === undefined
          ? queued
          : queued.where('email_key', 'in', (eb) =>
              eb.selectFrom('outbound_emails').select('key').where('id', '=', id),
            ),
      ).changes,
  )
}

/** Makes all mail that waits for a recipient domain due now. Returns the number of deliveries. */
function retryLane({ store, clock }: { store: Store; clock: Clock }, domain: string): Promise<number> {
  const due = (lanes: string[]) =>
    db
      .updateTable('deliveries')
      .set({ next_attempt_at: clock.now() })
      .where('status', '=', 'queued')
      .where('lane', 'in', lanes)
  return store.write((tx) => tx.run(due(lanesOf(tx, domain))).changes)
}

type OperatorMove = DeliveryMove & ('hold' | 'release' | 'drop')

/** The most emails that one transaction moves. */
const AT_ONCE = 100

/** Releases or drops every undecided recipient of a recipient domain, some emails at a time. Returns how many moved. */
async function moveLane(
  { store, clock }: { store: Store; clock: Clock },
  domain: string,
  on: OperatorMove & ('release' | 'drop'),
): Promise<number> {
  let moved = 0
  for (let after: number | null = 0; after !== null;) {
    const from: number = after
    after = await store.writeSoon((tx) => {
      const keys = tx.all(
        raw<{ email_key: number }>(
          `select distinct email_key from deliveries where lane in (select value from json_each(?)) and status in ('queued', 'held') and email_key > ?
           order by email_key limit ${AT_ONCE}`,
          [JSON.stringify(lanesOf(tx, domain)), from],
        ),
      )
      for (const { email_key } of keys) {
        const email = tx.first(movedEmail.where('key', '=', email_key))
        if (email) moved += moveMail(tx, email, on, clock.now(), domain)
      }
      return keys.length === AT_ONCE ? (keys.at(-1)?.email_key ?? null) : null
    })
  }
  return moved
}

/** The actions on all mail for a recipient domain. Each returns how many recipients moved or became due. */
export const LANE_ACTIONS = {
  hold: async (deps, domain) => {
    await holdLane(deps, domain, true)
    return 0
  },
  release: async (deps, domain) => {
    await holdLane(deps, domain, false)
    return moveLane(deps, domain, 'release')
  },
  retry: retryLane,
  drop: (deps, domain) => moveLane(deps, domain, 'drop'),
} satisfies Record<string, (deps: { store: Store; clock: Clock }, domain: string) => Promise<number>>

export type LaneAction = keyof typeof LANE_ACTIONS

const movedEmail = db
  .selectFrom('outbound_emails')
  .select(['key', 'user_key', 'domain_key', 'campaign_key', 'agent_id'])

/** Holds, releases or drops the undecided recipients of an email. Returns how many moved. */
export function moveQueued(
  { store, clock }: { store: Store; clock: Clock },
  id: string,
  on: OperatorMove,
): Promise<number> {
  return store.write((tx) => {
    const email = tx.first(movedEmail.where('id', '=', id))
    return email ? moveMail(tx, email, on, clock.now()) : 0
  })
}

/** The actions on an email that a process has claimed and not begun to send. */
export type ClaimedMove = OperatorMove & ('hold' | 'drop')

/** Ends the claim of an email that waits for its turn, and moves its recipients. Returns how many moved. */
export function moveClaimed(
  tx: Tx,
  work: Pick<MailTransaction, 'deliveries' | 'email' | 'slot'>,
  on: ClaimedMove,
  now: number,
): number {
  const { deliveries, email } = work
  unclaim(tx, work, now)
  const found = tx.first(movedEmail.where('key', '=', email.key))
  return found ? moveMail(tx, found, on, now, domainOf(firstOf({ deliveries }).lane)) : 0
}

/** Moves the undecided recipients of one email. With `domain` only those at this recipient domain. */
function moveMail(tx: Tx, email: EmailKeys, on: OperatorMove, now: number, domain?: string): number {
  const set =
    on === 'hold'
      ? { next_attempt_at: null }
      : on === 'release'
        ? { next_attempt_at: now }
        : { ...NOBODY_SAID, next_attempt_at: null, response: 'Dropped by the operator.' }
  const moved = deliveriesOf(tx, [email.key])
    .filter(({ lane }) => domain === undefined || domainOf(lane) === domain)
    .filter((delivery) => move(tx, deliveryMachine, delivery.key, on, { ...set, updated_at: now }))
  const primary = moved.find(({ role }) => role === 'to')
  const details = { kind: 'failed', response: 'Dropped by the operator.' }
  if (on === 'drop' && primary) moveEmail(tx, { email, delivery: primary, now }, 'expired', details)
  if (on === 'drop')
    for (const delivery of moved) if (delivery !== primary) emit(tx, { email, delivery, now }, 'email.bounced', details)
  return moved.length
}
