// Agents (D39): programs that send mail under a name of their own. Each has a reputation, earned by its mail.
import { z } from 'zod'
import { must, refuse } from '../base/errors.ts'
import { field, type Call, type Written } from '../jsonapi/resource.ts'
import { listAgents, paceOf } from './agents.ts'
import { pauseAgent } from './pauses.ts'
import { AGENT_STATUSES } from '../states/agent.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, time, timeOrNull, words } from '../jsonapi/fields.ts'
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
      `This token sends as the agent ${caller.agentId}; a person, or a token without an agent, resumes agents.`,
    )
  if (!list(call).some((agent) => agent.agent_id === id)) throw refuse('not_found', 'No such resource exists.')
  await parts.store.write((tx) => pauseAgent(tx, caller.userKey, id, paused, now))
  const row = list(call).find((agent) => agent.agent_id === id)
  return { row: must(row, 'The agent') }
}

export const agents = define('agents', {
  table: 'agents',
  about: `Agents that send mail (\`agent_id\`), with the outcomes of seven days. ${EXTENSION}`,
  attributes: {
    agent_id: words('Its name, as mails say it.'),
    pool: field(z.enum(AGENT_STATUSES), { about: 'Its pool.' }),
    pace: words('The speed of its mail, in words.'),
    deliveries: count('Recipients whose mail was accepted, in seven days.'),
    bounces: count('Recipients that refused it for good.'),
    complaints: count('Complaints.'),
    status_at: time('Since when it is in its pool.'),
    paused_at: timeOrNull('Since when its mail is refused; null: it is accepted.'),
    created_at: time('When it sent its first mail.'),
  },
  actions: [
    {
      kind: 'view',
      path: '/agents',
      id: 'listAgents',
      scope: 'emails:read',
      params: ['page'],
      about: `List your agents. ${EXTENSION}`,
      run: list,
    },
    {
      kind: 'act',
      free: true,
      path: '/agents/:agent/pause',
      id: 'pauseAgent',
      scope: 'emails:write',
      about: `Refuse the mail of an agent (409 agent_paused) until it is resumed; what is queued goes on. ${EXTENSION}`,
      run: (call: Call<ApiDeps>) => pause(call, true),
    },
    {
      kind: 'act',
      free: true,
      path: '/agents/:agent/resume',
      id: 'resumeAgent',
      scope: 'emails:write',
      about: `Take the mail of an agent again. ${EXTENSION}`,
      run: (call: Call<ApiDeps>) => pause(call, false),
    },
  ],
})
