// Agents (D39): applications that send email under their own name. Each has a reputation, based on its email.
import { z } from 'zod'
import { must, refuse } from '../base/errors.ts'
import { field, type Call, type Written } from '../jsonapi/resource.ts'
import { listAgents, paceOf } from './agents.ts'
import { pauseAgent } from './pauses.ts'
import { AGENT_STATUSES } from '../store/states/agent.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, time, timeOrNull, words } from '../jsonapi/fields.ts'
import { pathParameter } from '../jsonapi/request.ts'

const list = ({ caller, now, parts }: Pick<Call<ApiDeps>, 'caller' | 'now' | 'parts'>) =>
  listAgents(parts.store, now)
    .filter(({ user_key }) => user_key === caller.userKey)
    .map((agent) => ({ ...agent, id: agent.agent_id, pool: agent.status, pace: paceOf(agent.status) }))

async function pause(call: Call<ApiDeps>, paused: boolean): Promise<Written> {
  const { caller, now, params, parts } = call
  const id = pathParameter({ params }, 'agent')
  if (!paused && caller.agentId !== undefined)
    throw refuse(
      'insufficient_scope',
      `This token sends as the agent ${caller.agentId} and cannot resume agents. Use a token without an agent, or the console.`,
    )
  if (!list(call).some((agent) => agent.agent_id === id))
    throw refuse('not_found', 'No such agent exists. Check the id in the URL.')
  await parts.store.write((tx) => pauseAgent(tx, caller.userKey, id, paused, now))
  const row = list(call).find((agent) => agent.agent_id === id)
  return { row: must(row, 'Agent') }
}

export const agents = define('agents', {
  table: 'agents',
  scope: 'emails',
  about: `Agents that send email (\`agent_id\`), with their results of seven days.`,
  extension: true,
  attributes: {
    agent_id: words('Name of the agent, as in `agent_id`.'),
    pool: field(z.enum(AGENT_STATUSES), { about: 'Reputation pool of the agent.' }),
    pace: words('Sending speed of the agent, as a text.'),
    deliveries: count('Number of recipients whose email was accepted in seven days.'),
    bounces: count('Number of recipients that permanently rejected the email in seven days.'),
    complaints: count('Number of complaints.'),
    status_at: time('Time since which the agent is in its pool.'),
    paused_at: timeOrNull('Time since which its emails are rejected. Null if the agent is not paused.'),
    created_at: time('Time of its first email.'),
  },
  actions: [
    {
      kind: 'view',
      path: '/agents',
      id: 'listAgents',
      params: ['page'],
      about: 'List agents.',
      run: list,
    },
    {
      kind: 'act',
      free: true,
      path: '/agents/:agent/pause',
      id: 'pauseAgent',
      about:
        'Pause an agent. Its emails are rejected (409 `agent_paused`) until it is resumed. Emails that are already queued are delivered.',
      run: (call: Call<ApiDeps>) => pause(call, true),
    },
    {
      kind: 'act',
      free: true,
      path: '/agents/:agent/resume',
      id: 'resumeAgent',
      about: 'Resume an agent. Its emails are accepted again.',
      run: (call: Call<ApiDeps>) => pause(call, false),
    },
  ],
})
