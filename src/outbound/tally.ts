// Counts the results of mail by hour, domain and agent, in the transaction that writes the result: so the figures that
// decide reputation always match the results (D39).
import { HOUR } from '../base/clock.ts'
import type { Reader, Tx } from '../store/database.ts'
import { raw, statement, db } from '../store/query.ts'

/** The signal of a commit that holds a bounce or a complaint. */
export const BAD_NEWS = 'bad news'

export interface Tallied {
  user_key: number
  domain_key: number
  agent_id: string | null
}

const add = statement<{
  user_key: number
  domain_key: number
  agent_id: string
  hour: number
  deliveries: number
  bounces: number
  complaints: number
}>()((arg) =>
  db
    .insertInto('tallies')
    .values({
      user_key: arg.user_key,
      domain_key: arg.domain_key,
      agent_id: arg.agent_id,
      hour: arg.hour,
      deliveries: arg.deliveries,
      bounces: arg.bounces,
      complaints: arg.complaints,
    })
    .onConflict((conflict) =>
      conflict.columns(['domain_key', 'agent_id', 'hour']).doUpdateSet((eb) => ({
        deliveries: eb('tallies.deliveries', '+', eb.ref('excluded.deliveries')),
        bounces: eb('tallies.bounces', '+', eb.ref('excluded.bounces')),
        complaints: eb('tallies.complaints', '+', eb.ref('excluded.complaints')),
      })),
    ),
)

export function tally(
  tx: Tx,
  { agent_id, domain_key, user_key }: Tallied,
  what: 'delivery' | 'bounce' | 'complaint',
  now: number,
): void {
  tx.run(
    add({
      user_key,
      domain_key,
      agent_id: agent_id ?? '',
      hour: Math.floor(now / HOUR),
      deliveries: what === 'delivery' ? 1 : 0,
      bounces: what === 'bounce' ? 1 : 0,
      complaints: what === 'complaint' ? 1 : 0,
    }),
  )
  if (what !== 'delivery') tx.signal(BAD_NEWS)
}

const takeBack = statement<{ domain_key: number; agent_id: string; hour: number }>()((arg) =>
  db
    .updateTable('tallies')
    .set((eb) => ({ deliveries: eb('deliveries', '-', 1) }))
    .where('domain_key', '=', arg.domain_key)
    .where('agent_id', '=', arg.agent_id)
    .where('hour', '=', arg.hour)
    .where('deliveries', '>', 0),
)

/** Takes back a counted delivery that bounced later. A mail has one outcome, so that shares are shares of mails. */
export function takeBackDelivery(tx: Tx, { agent_id, domain_key }: Tallied, at: number): void {
  const hour = Math.floor(at / HOUR)
  // It may be counted in the hour before; see closeHour.
  for (const each of [hour, hour - 1])
    if (tx.run(takeBack({ domain_key, agent_id: agent_id ?? '', hour: each })).changes > 0) return
}

export interface Figures {
  deliveries: number
  bounces: number
  complaints: number
}

const sums =
  'coalesce(sum(deliveries), 0) as deliveries, coalesce(sum(bounces), 0) as bounces, coalesce(sum(complaints), 0) as complaints'

/** An agent's figures since a time, on all domains of its user. */
export function agentFigures(reader: Reader, userKey: number, agentId: string, since: number): Figures {
  return reader.first(
    raw<Figures>(`select ${sums} from tallies where user_key = ? and agent_id = ? and agent_id <> '' and hour >= ?`, [
      userKey,
      agentId,
      Math.ceil(since / HOUR),
    ]),
  )!
}

/** A domain's figures since a time, of mail with and without an agent. */
export function domainFigures(reader: Reader, domainKey: number, since: number): Figures {
  return reader.first(
    raw<Figures>(`select ${sums} from tallies where domain_key = ? and hour >= ?`, [
      domainKey,
      Math.ceil(since / HOUR),
    ]),
  )!
}

/** The figures of all domains of a user since a time. */
export function accountFigures(reader: Reader, userKey: number, since: number): Figures {
  return reader.first(
    raw<Figures>(
      `select ${sums} from tallies where domain_key in (select key from domains where user_key = ?) and hour >= ?`,
      [userKey, Math.floor(since / HOUR)],
    ),
  )!
}

/** What an agent's mail has come to in this hour goes into the one before: what follows is counted apart from it. */
export function closeHour(tx: Tx, userKey: number, agentId: string, now: number): void {
  const hour = Math.floor(now / HOUR)
  const open = db.selectFrom('tallies').selectAll().where('user_key', '=', userKey).where('agent_id', '=', agentId)
  for (const row of tx.all(open.where('hour', '=', hour))) {
    tx.run(add({ ...row, hour: hour - 1 }))
    tx.run(
      db
        .deleteFrom('tallies')
        .where('domain_key', '=', row.domain_key)
        .where('agent_id', '=', agentId)
        .where('hour', '=', hour),
    )
  }
}

/** Deletes hours that no window reads any more; returns how many rows. */
export function forgetTallies(tx: Tx, before: number): number {
  return tx.run(db.deleteFrom('tallies').where('hour', '<', Math.floor(before / HOUR))).changes
}
