// `postrider watch …`: the checks of blocklists and reverse DNS for the IP addresses and domains of this server.
import type { Command } from 'commander'
import { iso } from '../base/clock.ts'
import { withDeps, type Invocation } from '../views/command/open.ts'
import { answer, table } from '../views/command/terminal.ts'
import { watchNow } from './round.ts'
import { listWatches, type WatchRow } from './watches.ts'
import { shownWords } from './words.ts'

const shown = (watch: WatchRow) => ({
  id: watch.id,
  kind: watch.kind,
  subject: watch.subject,
  list: watch.list === '' ? null : watch.list,
  state: watch.status,
  answer: watch.answer,
  since: iso(watch.since),
  checked_at: watch.checked_at === null ? null : iso(watch.checked_at),
  ...shownWords(watch),
})

function print(invocation: Invocation, rows: readonly WatchRow[]): void {
  answer(invocation.terminal, rows.map(shown), (all) => {
    if (all.length === 0)
      return 'There are no results yet. The server runs the first check 10 minutes after its start; run "postrider watch now" to check immediately.'
    const lines = table(
      ['STATE', 'SUBJECT', 'LIST OR KIND', 'SINCE', 'ANSWER'],
      all.map((row) => [row.state, row.subject, row.list ?? row.kind, row.since, row.answer]),
    )
    const open = all.filter(({ state }) => state === 'listed' || state === 'wrong')
    return [lines, ...open.map(({ fix, message, url }) => [message, fix, url].filter(Boolean).join('\n  '))].join(
      '\n\n',
    )
  })
}

export function watchCommand(program: Command, invocation: () => Invocation): void {
  const watch = program.command('watch').description('check blocklists and reverse DNS for this server')
  watch
    .command('list')
    .description('list the latest results')
    .action(() => withDeps(invocation(), ({ store }) => print(invocation(), listWatches(store))))
  watch
    .command('now')
    .description('check now and list the results')
    .action(() =>
      withDeps(invocation(), async ({ ring, ...deps }) =>
        print(invocation(), await watchNow({ ...deps, noticed: ring })),
      ),
    )
}
