// `postrider agent …`: agents, their pools, and the results of their mail in a week. A misbehaving agent can be paused.
import type { Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { counted } from '../base/text.ts'
import { requireUser, type User } from '../users/users.ts'
import { listAgents, paceOf } from './agents.ts'
import { pauseAgent } from './pauses.ts'
import type { Reader } from '../store/database.ts'
import { withDeps, type Invocation } from '../views/command/open.ts'
import { answer, answerRows } from '../views/command/terminal.ts'

export function agentCommand(program: Command, invocation: () => Invocation): void {
  const agent = program.command('agent').description('view and pause the agents (applications) that send email')
  pause(agent, invocation)
  list(agent, invocation)
}

function pause(agent: Command, invocation: () => Invocation): void {
  for (const [name, paused] of [
    ['pause', true],
    ['resume', false],
  ] as const)
    agent
      .command(`${name} <agent>`)
      .description(
        paused ? 'reject email of an agent until it is resumed (409 agent_paused)' : 'accept email of an agent again',
      )
      .option('--user <email>', 'owner of the agent, if several users have one of this name')
      .action((agentId: string, { user }: { user?: string }) =>
        withDeps(invocation(), async ({ clock, store }) => {
          const owner = ownerOf(store, agentId, clock.now(), user)
          const changed = await store.write((tx) => pauseAgent(tx, owner.key, agentId, paused, clock.now()))
          answer(invocation().terminal, { agent_id: agentId, user: owner.email, paused, changed }, () =>
            changed
              ? `The agent ${agentId} of ${owner.email} is ${paused ? 'paused. New email is rejected, queued email is still delivered' : 'resumed'}.`
              : `The agent ${agentId} of ${owner.email} ${paused ? 'is already paused' : 'is not paused'}.`,
          )
        }),
      )
}

function list(agent: Command, invocation: () => Invocation): void {
  agent
    .command('list')
    .description('list agents with their reputation and 7-day statistics')
    .action(() =>
      withDeps(invocation(), ({ clock, store }) => {
        const agents = listAgents(store, clock.now()).map((agent) => ({
          user: agent.email,
          agent_id: agent.agent_id,
          pool: agent.status,
          pace: paceOf(agent.status),
          deliveries: agent.deliveries,
          bounces: agent.bounces,
          complaints: agent.complaints,
          since: iso(agent.status_at),
          paused_at: agent.paused_at === null ? null : iso(agent.paused_at),
        }))
        const columns = {
          AGENT: 'agent_id',
          POOL: 'pool',
          PACE: 'pace',
          DELIVERED: 'deliveries',
          BOUNCED: 'bounces',
          COMPLAINTS: 'complaints',
          SINCE: 'since',
          PAUSED: 'paused_at',
          USER: 'user',
        } as const
        const none = 'There are no agents. An email names its agent in "agent_id".'
        answerRows(invocation().terminal, agents, columns, none)
      }),
    )
}

/** The owner of an agent: the named user, or the only user with this agent. Throws an OperatorError. */
function ownerOf(reader: Reader, agentId: string, now: number, email: string | undefined): User {
  if (email !== undefined) return requireUser(reader, email)
  const emails = listAgents(reader, now).flatMap((each) => (each.agent_id === agentId ? [each.email] : []))
  const [only, another] = emails
  if (only === undefined)
    throw new OperatorError(
      `There is no agent ${agentId}; run "postrider agent list" to see all agents, or add --user to pause it in advance.`,
    )
  if (another !== undefined)
    throw new OperatorError(
      `${counted(emails.length, 'user')} have an agent ${agentId} (${emails.join(', ')}); add --user to choose one.`,
    )
  return requireUser(reader, only)
}
