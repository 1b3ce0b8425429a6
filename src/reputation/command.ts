// `postrider agent …`: agents, their pools, and the results of their mail in a week. A misbehaving agent can be paused.
import type { Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { requireUser, type User } from '../identity/users.ts'
import { listAgents, paceOf } from './agents.ts'
import { pauseAgent } from './pauses.ts'
import type { Reader } from '../store/database.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'

export function agentCommand(program: Command, invocation: () => Invocation): void {
  const agent = program.command('agent').description('agents that send mail: their reputation, and a stop for each')
  pause(agent, invocation)
  list(agent, invocation)
}

/** Pause and resume. */
function pause(agent: Command, invocation: () => Invocation): void {
  for (const [name, paused] of [
    ['pause', true],
    ['resume', false],
  ] as const)
    agent
      .command(`${name} <agent>`)
      .description(
        paused
          ? 'refuse the mail of an agent until it is resumed (409 agent_paused)'
          : 'accept the mail of an agent again',
      )
      .option('--user <email>', 'whose agent, if several users have one of that name')
      .action((agentId: string, { user }: { user?: string }) =>
        withDeps(invocation(), async ({ clock, store }) => {
          const owner = ownerOf(store, agentId, clock.now(), user)
          const changed = await store.write((tx) => pauseAgent(tx, owner.key, agentId, paused, clock.now()))
          answer(invocation().terminal, { agent_id: agentId, user: owner.email, paused, changed }, () =>
            changed
              ? `The agent ${agentId} of ${owner.email} is ${paused ? 'paused: its mail is refused; what is queued goes on' : 'sending again'}.`
              : `The agent ${agentId} of ${owner.email} ${paused ? 'was paused already' : 'was not paused'}.`,
          )
        }),
      )
}

function list(agent: Command, invocation: () => Invocation): void {
  agent
    .command('list')
    .description('every agent with its pool, its pace and the figures of a week')
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
        answer(invocation().terminal, agents, (rows) =>
          rows.length === 0
            ? 'There are no agents; a mail names its agent in "agent_id".'
            : table(
                ['AGENT', 'POOL', 'PACE', 'DELIVERED', 'BOUNCED', 'COMPLAINTS', 'SINCE', 'PAUSED', 'USER'],
                rows.map((row) => [
                  row.agent_id,
                  row.pool,
                  row.pace,
                  row.deliveries,
                  row.bounces,
                  row.complaints,
                  row.since,
                  row.paused_at,
                  row.user,
                ]),
              ),
        )
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
      `There is no agent ${agentId}; "postrider agent list" shows all, --user names whose it is to be.`,
    )
  if (another !== undefined)
    throw new OperatorError(
      `${emails.length} users have an agent ${agentId} (${emails.join(', ')}); say whose with --user.`,
    )
  return requireUser(reader, only)
}
