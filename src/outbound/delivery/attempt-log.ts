// Each attempt of a delivery (D81). An attempt that is followed by another has its own row. The result of the last
// attempt is in the row of the delivery, so that a mail that is accepted at once needs no row of attempts. Attempts are
// kept as long as the body, and are deleted when the recipient is erased.
import type { Verdict } from '../../smtp/verdict.ts'
import type { Reader, Tx } from '../../store/database.ts'
import { db, raw } from '../../store/query.ts'
import type { RowOf } from '../../store/tables.ts'

export interface Attempt {
  /** Recipient. */
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
  /** The SMTP dialogue; only the last attempt has one. */
  dialogue: string | null
}

type Delivery = Pick<RowOf<'deliveries'>, 'key' | 'attempts'>

/** Writes the row of an attempt that another attempt will follow. */
export function logAttempt(tx: Tx, { attempts, key }: Delivery, verdict: Verdict, now: number): void {
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
    }),
  )
}

/** Every attempt of a mail, recipient by recipient, the earliest first. */
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

type Facts = Pick<RowOf<'deliveries'>, 'smtp_code' | 'enhanced_code' | 'response' | 'remote_mta' | 'tls'>

/** The answer of the exchanger. */
const factsOf = ({ enhanced_code, remote_mta, response, smtp_code, tls }: Facts): Facts => ({
  smtp_code,
  enhanced_code,
  response,
  remote_mta,
  tls,
})

/** The attempts of one delivery: those with their own rows, and the last one from the row of the delivery. */
function wayOf(delivery: RowOf<'deliveries'>, logged: readonly RowOf<'attempts'>[]): Attempt[] {
  const { address, attempts, dialogue, role, status, updated_at } = delivery
  const earlier = logged.map((row): Attempt => ({
    address,
    role,
    number: row.number,
    at: row.at,
    outcome: row.outcome,
    ...factsOf(row),
    dialogue: null,
  }))
  const last = earlier.at(-1)
  // After a deferral the last attempt has its own row, but its dialogue is in the row of the delivery.
  if (last && last.number === attempts && status === 'queued') {
    last.dialogue = dialogue
    return earlier
  }
  if (attempts === 0 || status === 'queued' || status === 'held') return earlier
  const outcome = status === 'active' ? 'under way' : status === 'complained' ? 'delivered' : status
  return [...earlier, { address, role, number: attempts, at: updated_at, outcome, ...factsOf(delivery), dialogue }]
}

/** Removes the attempts of a mail. */
export function forgetAttempts(tx: Tx, emailKey: number): void {
  tx.run(raw('delete from attempts where delivery_key in (select key from deliveries where email_key = ?)', [emailKey]))
}
