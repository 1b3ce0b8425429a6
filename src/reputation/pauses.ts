// The rows of agents, and their pauses: a paused agent sends no email until a user resumes it (D117).
import { refuse } from '../base/errors.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'

export type Agent = RowOf<'agents'>

export const agentOf = statement<{ user_key: number; agent_id: string }>()((arg) =>
  db.selectFrom('agents').selectAll().where('user_key', '=', arg.user_key).where('agent_id', '=', arg.agent_id),
)

export function addAgent(tx: Tx, userKey: number, agentId: string, now: number): Agent {
  return tx.one(
    db
      .insertInto('agents')
      .values({
        user_key: userKey,
        agent_id: agentId,
        status: 'probation',
        status_at: now,
        next_slot_at: now,
        created_at: now,
        updated_at: now,
      })
      .returningAll(),
  )
}

/** The agent, when it has sent before. Throws 409 while it is paused. */
export function refusePaused(reader: Reader, user_key: number, agent_id: string): Agent | undefined {
  const agent = reader.first(agentOf({ user_key, agent_id }))
  if (!agent || agent.paused_at === null) return agent
  const pointer = '/data/attributes/agent_id'
  throw refuse(
    'agent_paused',
    `The agent ${agent_id} is paused. Resume it on the page Agents of the console, or with "postrider agent resume".`,
    {
      pointer,
    },
  )
}

/** Pauses or resumes an agent of a user. An agent that has not sent yet is created. False if it did not change. */
export function pauseAgent(tx: Tx, userKey: number, agentId: string, paused: boolean, now: number): boolean {
  const agent = tx.first(agentOf({ user_key: userKey, agent_id: agentId })) ?? addAgent(tx, userKey, agentId, now)
  if ((agent.paused_at !== null) === paused) return false
  tx.run(
    db
      .updateTable('agents')
      .set({ paused_at: paused ? now : null, updated_at: now })
      .where('key', '=', agent.key),
  )
  return true
}
