// Each attempt of a delivery (D81). The result of the last attempt is in the delivery's own row, so that an email that
// is accepted at once costs no other row. An earlier attempt has its own row. So has a successful attempt that a report
// follows, because the report replaces the result in the delivery's row. Rows are kept as long as the body, and are
// deleted with an erased recipient.
import { relayIn } from '../../message/lane-names.ts'
import type { Verdict } from '../../smtp/verdict.ts'
import type { Reader, Tx } from '../../store/database.ts'
import { db, raw } from '../../store/query.ts'
import type { RowOf } from '../../store/schema/tables.ts'

export interface Attempt {
  address: string
  role: 'to' | 'cc' | 'bcc'
  number: number
  at: number
  outcome: RowOf<'attempts'>['outcome'] | 'under way'
  smtp_code: number | null
  enhanced_code: string | null
  response: string | null
  remote_mta: string | null
  tls: string | null
  security: string | null
  /** The local address that the email was sent from, or null if the server has only one. */
  source: string | null
  /** The relay for overflow that the email was sent to, or null if it was sent to the receiving servers. */
  route: string | null
  /** The SMTP transcript, or null for all attempts except the last. */
  dialogue: string | null
  /** Whether this is from a report that came after the attempt, and not from the receiving server's reply. */
  reported: boolean
}

type LoggedDelivery = Pick<RowOf<'deliveries'>, 'key' | 'attempts'>

/** Writes the row of an attempt if another attempt will follow. */
export function logAttempt(
  tx: Tx,
  { attempts, key }: LoggedDelivery,
  { source, ...verdict }: Omit<Verdict, 'source'> & { source: string | null },
  now: number,
): void {
  tx.run(
    db.insertInto('attempts').values({
      delivery_key: key,
      number: attempts,
      at: now,
      outcome: 'deferred',
      smtp_code: verdict.code,
      enhanced_code: verdict.enhanced,
      response: verdict.text,
      remote_mta: verdict.host,
      tls: verdict.tls,
      security: verdict.security,
      source,
    }),
  )
}

/**
 * How many attempts of a queued delivery have ended with a result: the step of its retry schedule. `attempts` also
 * counts those that ended with their process.
 */
export const endedAttempts = (reader: Reader, { key }: Pick<LoggedDelivery, 'key'>): number =>
  reader.one(raw<{ count: number }>('select count(*) as count from attempts where delivery_key = ?', [key])).count

/** Writes the row of a successful attempt before a report (a late bounce, a complaint) changes its delivery. */
export function logDelivered(tx: Tx, { key }: LoggedDelivery): void {
  tx.run(
    raw(
      `insert into attempts (delivery_key, number, at, outcome, smtp_code, enhanced_code, response, remote_mta, tls, security, source)
       select key, attempts, updated_at, 'delivered', smtp_code, enhanced_code, response, remote_mta, tls, security, source
       from deliveries where key = ? and status = 'delivered'`,
      [key],
    ),
  )
}

/** Every attempt of an email, recipient by recipient, the earliest first. */
export function attemptsOf(reader: Reader, emailKey: number): Attempt[] {
  const deliveries = reader.all(
    raw<RowOf<'deliveries'>>('select * from deliveries where email_key = ? order by key', [emailKey]),
  )
  const logged = reader.all(
    raw<RowOf<'attempts'>>(
      'select a.* from attempts a join deliveries v on v.key = a.delivery_key where v.email_key = ? order by a.key',
      [emailKey],
    ),
  )
  return deliveries.flatMap((delivery) =>
    wayOf(
      delivery,
      logged.filter(({ delivery_key }) => delivery_key === delivery.key),
    ),
  )
}

type AttemptFacts = Pick<
  RowOf<'deliveries'>,
  'smtp_code' | 'enhanced_code' | 'response' | 'remote_mta' | 'tls' | 'security' | 'source'
>

const factsOf = ({
  enhanced_code,
  remote_mta,
  response,
  security,
  smtp_code,
  source,
  tls,
}: AttemptFacts): AttemptFacts => ({
  smtp_code,
  enhanced_code,
  response,
  remote_mta,
  tls,
  security,
  source,
})

/** The attempts of one delivery: those with their own rows, and the last one from the row of the delivery. */
function wayOf(delivery: RowOf<'deliveries'>, logged: readonly RowOf<'attempts'>[]): Attempt[] {
  const { address, attempts, dialogue, lane, role, status, updated_at } = delivery
  // All attempts of an email use the same route.
  const route = relayIn(lane) ?? null
  const earlier = logged.map((row): Attempt => ({
    address,
    role,
    number: row.number,
    at: row.at,
    outcome: row.outcome,
    ...factsOf(row),
    route,
    dialogue: null,
    reported: false,
  }))
  const last = earlier.at(-1)
  // After a deferral the last attempt has its own row, but its SMTP transcript is in the row of the delivery.
  if (last && last.number === attempts && status === 'queued') {
    last.dialogue = dialogue
    return earlier
  }
  // A successful attempt gets a row only when a report follows it.
  if (last?.outcome === 'delivered') {
    last.dialogue = dialogue
    const { enhanced_code, response, smtp_code } = delivery
    const unsaid = { remote_mta: null, tls: null, security: null, source: null, route: null, dialogue: null }
    const said = { smtp_code, enhanced_code, response, ...unsaid, reported: true }
    return status === 'bounced'
      ? [...earlier, { address, role, number: attempts, at: updated_at, outcome: status, ...said }]
      : earlier
  }
  if (attempts === 0 || status === 'queued' || status === 'held') return earlier
  // Neither was ever tried.
  if (status === 'scheduled' || status === 'cancelled') return earlier
  const outcome = status === 'active' ? 'under way' : status === 'complained' ? 'delivered' : status
  const facts = { ...factsOf(delivery), route, dialogue, reported: false }
  return [...earlier, { address, role, number: attempts, at: updated_at, outcome, ...facts }]
}

export function forgetAttempts(tx: Tx, emailKey: number): void {
  tx.run(raw('delete from attempts where delivery_key in (select key from deliveries where email_key = ?)', [emailKey]))
}
