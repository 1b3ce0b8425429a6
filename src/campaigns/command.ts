// `postrider segment`: the segments of audiences, and the number of contacts that match.
import type { Command } from 'commander'
import { iso } from '../base/clock.ts'
import { counted } from '../base/text.ts'
import { withDeps, type Invocation } from '../views/command/open.ts'
import { answer, answerRows } from '../views/command/terminal.ts'
import { segmentsOf, theAudience, theSegment } from './find-audience.ts'

export function segmentCommand(program: Command, invocation: () => Invocation): void {
  const segment = program.command('segment').description('list and count the segments of audiences')
  segment
    .command('list <audience>')
    .description('list the segments of an audience')
    .action((name: string) =>
      withDeps(invocation(), ({ config, store }) => {
        const found = segmentsOf(store, theAudience(store, name, config.http.public_url).key)
        const rows = found.map(({ created_at, id, name: named, rules }) => ({
          id,
          name: named,
          rules: JSON.parse(rules) as unknown[],
          created_at: iso(created_at),
        }))
        const columns = {
          ID: 'id',
          NAME: 'name',
          CONDITIONS: ({ rules }: (typeof rows)[number]) => rules.length,
          CREATED: 'created_at',
        } as const
        answerRows(invocation().terminal, rows, columns, 'There are no segments.')
      }),
    )
  segment
    .command('count <audience> <name>')
    .description('show how many contacts match a segment')
    .action((name: string, segmentName: string) =>
      withDeps(invocation(), async (deps) => {
        const audience = theAudience(deps.store, name, deps.config.http.public_url)
        const { key } = theSegment(deps.store, audience, segmentName)
        const { reachOf } = await import('./reach.ts')
        const { contacts, recipients } = await reachOf(deps, {
          audience_key: audience.key,
          domain_key: audience.domain_key,
          segment_key: key,
        })
        answer(
          invocation().terminal,
          { count: recipients, matching: contacts },
          ({ count, matching }) =>
            `${counted(matching, 'contact')} ${matching === 1 ? 'matches' : 'match'}, ${count} of them would receive a campaign now.`,
        )
      }),
    )
}
