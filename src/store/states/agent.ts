// The pool of an agent (D39), which depends on the results of its email. Each pool has its own rate.
//
//   probation <--demote-- standard <--demote-- trusted
//       '-----promote---->    '----promote---->
//   any --damage--> damaged --recover--> probation
import { machine } from './machine.ts'

export const AGENT_STATUSES = ['probation', 'standard', 'trusted', 'damaged'] as const
export type AgentStatus = (typeof AGENT_STATUSES)[number]
export type AgentMove = 'promote' | 'demote' | 'damage' | 'recover'

export const agentMachine = machine<AgentStatus, AgentMove>('agents', [
  ['probation', 'promote', 'standard', 'auto', 'agent.pool.promoted'],
  ['standard', 'promote', 'trusted', 'auto', 'agent.pool.promoted'],
  ['trusted', 'demote', 'standard', 'auto', 'agent.pool.demoted'],
  ['standard', 'demote', 'probation', 'auto', 'agent.pool.demoted'],
  ['probation', 'damage', 'damaged', 'auto', 'agent.reputation.damaged'],
  ['standard', 'damage', 'damaged', 'auto', 'agent.reputation.damaged'],
  ['trusted', 'damage', 'damaged', 'auto', 'agent.reputation.damaged'],
  ['damaged', 'recover', 'probation', 'auto', 'agent.pool.recovered'],
])
