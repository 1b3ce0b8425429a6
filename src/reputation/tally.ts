// Counts the results of mail by hour, domain and agent, in the transaction that writes the result: so the figures that
// decide reputation always match the results (D39).
import { DAY, HOUR } from '../base/clock.ts'
import type { Reader, Tx } from '../store/database.ts'
import type { SumTable } from '../store/sums.ts'
import { raw, statement, db } from '../store/query.ts'

/** The signal of a commit that holds a bounce or a complaint. */
export const BAD_NEWS = 'bad news'

export interface Tallied {
  user_key: number
  domain_key: number
  agent_id: string | null
  campaign_key: number | null
}

const TALLIES: SumTable = {
  table: 'tallies',
  by: ['domain_key', 'agent_id', 'hour'],
  also: ['user_key'],
  of: ['deliveries', 'bounces', 'complaints'],
}

const CAMPAIGN_TALLIES: SumTable = {
  table: 'campaign_tallies',
  by: ['campaign_key'],
  of: ['deliveries', 'bounces', 'complaints'],
}

export function tally(
  tx: Tx,
  { agent_id, campaign_key, domain_key, user_key }: Tallied,
  what: 'delivery' | 'bounce' | 'complaint',
  now: number,
): void {
  const amounts = (['delivery', 'bounce', 'complaint'] as const).map((each) => (each === what ? 1 : 0))
  tx.add(TALLIES, [domain_key, agent_id ?? '', Math.floor(now / HOUR), user_key], amounts)
  if (campaign_key !== null) tx.add(CAMPAIGN_TALLIES, [campaign_key], amounts)
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

/** Uncounts a delivery that bounced later. Each email has one outcome, so that the rates are rates of emails. */
export function takeBackDelivery(tx: Tx, { agent_id, campaign_key, domain_key }: Tallied, at: number): void {
  if (campaign_key !== null) tx.add(CAMPAIGN_TALLIES, [campaign_key], [-1, 0, 0])
  const hour = Math.floor(at / HOUR)
  // The delivery may be counted in the hour before (closeHour).
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

/** The figures of a campaign since its start or its last resume. */
export const campaignFigures = (reader: Reader, campaignKey: number): Figures =>
  reader.one(raw<Figures>(`select ${sums} from campaign_tallies where campaign_key = ?`, [campaignKey]))

/** Starts the figures of a campaign from zero. */
export const restartCampaignFigures = (tx: Tx, campaignKey: number): void =>
  void tx.run(db.deleteFrom('campaign_tallies').where('campaign_key', '=', campaignKey))

/** An agent's figures since a time, on all domains of its user. */
export function agentFigures(reader: Reader, userKey: number, agentId: string, since: number): Figures {
  return reader.one(
    raw<Figures>(`select ${sums} from tallies where user_key = ? and agent_id = ? and agent_id <> '' and hour >= ?`, [
      userKey,
      agentId,
      Math.ceil(since / HOUR),
    ]),
  )
}

/** A domain's figures by hour from an hour on, without hours that have no email. */
export const domainHours = (reader: Reader, domainKey: number, from: number): (Figures & { hour: number })[] =>
  reader.all(
    raw<Figures & { hour: number }>(
      `select hour, ${sums} from tallies where domain_key = ? and hour >= ? group by hour order by hour`,
      [domainKey, from],
    ),
  )

/** A domain's figures since a time, of email with and without an agent. */
export function domainFigures(reader: Reader, domainKey: number, since: number): Figures {
  return reader.one(
    raw<Figures>(`select ${sums} from tallies where domain_key = ? and hour >= ?`, [
      domainKey,
      Math.ceil(since / HOUR),
    ]),
  )
}

/** The figures of all domains of a user from an hour on and before another. */
export function accountFigures(
  reader: Reader,
  userKey: number,
  { from, until = Number.MAX_SAFE_INTEGER }: { from: number; until?: number },
): Figures {
  return reader.one(
    raw<Figures>(
      `select ${sums} from tallies
       where domain_key in (select key from domains where user_key = ?) and hour >= ? and hour < ?`,
      [userKey, from, until],
    ),
  )
}

/** Moves an agent's figures of the present hour into the hour before, so that later results are counted separately. */
export function closeHour(tx: Tx, userKey: number, agentId: string, now: number): void {
  const hour = Math.floor(now / HOUR)
  const open = db.selectFrom('tallies').selectAll().where('user_key', '=', userKey).where('agent_id', '=', agentId)
  for (const row of tx.all(open.where('hour', '=', hour))) {
    const { agent_id, bounces, complaints, deliveries, domain_key, user_key } = row
    tx.add(TALLIES, [domain_key, agent_id, hour - 1, user_key], [deliveries, bounces, complaints])
    tx.run(
      db
        .deleteFrom('tallies')
        .where('domain_key', '=', row.domain_key)
        .where('agent_id', '=', agentId)
        .where('hour', '=', hour),
    )
  }
}

/** Longer than the longest period of statistics, a month, and the month before it. Reputation uses a week. */
export const KEPT = 62 * DAY

/** Deletes hours that are no longer used. Returns the number of rows. */
export function forgetTallies(tx: Tx, now: number): number {
  return tx.run(db.deleteFrom('tallies').where('hour', '<', Math.floor((now - KEPT) / HOUR))).changes
}
