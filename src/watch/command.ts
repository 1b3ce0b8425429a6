// `postrider watch …`: what is known of the addresses and domains of this server on blocklists and in reverse DNS.
import type { Command } from 'commander'
import { iso } from '../base/clock.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'
import { watchNow } from './round.ts'
import { listWatches, type WatchRow } from './watches.ts'
import { explained } from './words.ts'

const shown = (watch: WatchRow) => ({
  id: watch.id,
  kind: watch.kind,
  subject: watch.subject,
  list: watch.list === '' ? null : watch.list,
  state: watch.status,
  answer: watch.answer,
  since: iso(watch.since),
  checked_at: watch.checked_at === null ? null : iso(watch.checked_at),
  ...explained(watch),
})

function print(invocation: Invocation, rows: readonly WatchRow[]): void {
  answer(invocation.terminal, rows.map(shown), (all) => {
    if (all.length === 0)
      return 'Nothing is watched yet: the first round comes ten minutes after the start of the server, at its public addresses and active domains; "postrider watch now" asks at once.'
    const lines = table(
      ['STATE', 'SUBJECT', 'LIST OR KIND', 'SINCE', 'ANSWER'],
      all.map((row) => [row.state, row.subject, row.list ?? row.kind, row.since, row.answer]),
    )
    const open = all.filter(({ state }) => state === 'listed' || state === 'wrong')
    return [lines, ...open.map(({ mend, page, words }) => [words, mend, page].filter(Boolean).join('\n  '))].join(
      '\n\n',
    )
  })
}

export function watchCommand(program: Command, invocation: () => Invocation): void {
  const watch = program
    .command('watch')
    .description('what blocklists and reverse DNS say of the source addresses and domains')
  watch
    .command('list')
    .description('what is watched, with its state')
    .action(() => withDeps(invocation(), ({ store }) => print(invocation(), listWatches(store))))
  watch
    .command('now')
    .description('ask now: twice, two seconds apart')
    .action(() =>
      withDeps(invocation(), async ({ ring, ...deps }) =>
        print(invocation(), await watchNow({ ...deps, noticed: ring })),
      ),
    )
}
