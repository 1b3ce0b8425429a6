// `postrider agent list`: agents, their pools, and what became of their mail in a week.
import type { Command } from 'commander'
import { iso } from '../base/clock.ts'
import { listAgents, paceOf } from '../outbound/agents.ts'
import { withDesk, type Invocation } from './open.ts'
import { answer, table } from './terminal.ts'

export function agentCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('agent')
    .description('agents that send mail, and their reputation')
    .command('list')
    .description('every agent with its pool, its pace and the figures of a week')
    .action(() =>
      withDesk(invocation(), ({ clock, store }) => {
        const agents = listAgents(store, clock.now()).map((agent) => ({
          user: agent.email,
          agent_id: agent.agent_id,
          pool: agent.status,
          pace: paceOf(agent.status),
          deliveries: agent.deliveries,
          bounces: agent.bounces,
          complaints: agent.complaints,
          since: iso(agent.status_at),
        }))
        answer(invocation().terminal, agents, (rows) =>
          rows.length === 0
            ? 'There are no agents; a mail names its agent in "agent_id".'
            : table(
                ['AGENT', 'POOL', 'PACE', 'DELIVERED', 'BOUNCED', 'COMPLAINTS', 'SINCE', 'USER'],
                rows.map((row) => [
                  row.agent_id,
                  row.pool,
                  row.pace,
                  row.deliveries,
                  row.bounces,
                  row.complaints,
                  row.since,
                  row.user,
                ]),
              ),
        )
      }),
    )
}
