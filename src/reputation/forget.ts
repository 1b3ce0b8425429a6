// Erases an address from the names of agents.
import type { Tx } from '../store/database.ts'
import { holds, needleOf, redact, type Erasing } from '../store/erasing.ts'
import { raw } from '../store/query.ts'

/** Redacts agent names that contain the address. Their figures stay. */
export function forgetInAgents(tx: Tx, erasing: Erasing): null {
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
  return null
}
