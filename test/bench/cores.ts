// `npm run bench -- cores`: how outbound email scales with the cores of the server, compared to the peer on the same
// cores. The load and the sink run on the last core of the machine, which is also the server's if it has all of them.
// One run has everything on one core. Then the prediction of a model for more cores (docs/performance.md).
import { availableParallelism } from 'node:os'
import { syncsPerSecond } from './limits.ts'
import { posted, relayed, SMALL } from './outbound.ts'
import { missing } from './peer/postfix.ts'
import { figure } from './rig.ts'
import { inTurn, tell, type Round } from './turns.ts'
import { pin } from './usage.ts'

const BENCH = 'cores'
const MODELLED = [1, 2, 4, 8]

export async function cores(count: number, rounds: number): Promise<void> {
  const all = availableParallelism()
  const last = String(all - 1)
  const places = [
    { name: 'all_on_one_core', server: last },
    ...MODELLED.filter((each) => each <= all).map((each) => ({
      name: `${each}_${each === all ? 'shared' : 'own'}`,
      server: each === 1 ? '0' : `0-${each - 1}`,
    })),
  ]
  // Processes that this one starts stay there.
  pin(process.pid, last)
  try {
    const peer = missing().length === 0
    const sides: Record<string, () => Promise<Round>> = {}
    for (const { name, server } of places) {
      sides[`${name}_ours`] = () => posted(count, SMALL, server)
      if (peer) sides[`${name}_peer`] = () => relayed(count, SMALL, server)
    }
    const medians = await inTurn(rounds, sides)
    for (const [side, round] of Object.entries(medians)) tell(BENCH, side, round)
    model(medians[`${places.at(-1)?.name}_ours`]!)
  } finally {
    pin(process.pid, `0-${last}`)
  }
}

/** Emails per second that the main thread and the cores allow. docs/performance.md has the formula. */
function model({ cpuMs, mainCpuMs = 0, commits = 0 }: Round): void {
  const syncMs = 1000 / syncsPerSecond()
  const mainMs = mainCpuMs + commits * syncMs
  figure(BENCH, 'model_sync', syncMs, 'ms')
  figure(BENCH, 'model_main_thread', mainMs, 'ms a mail')
  figure(BENCH, 'model_all_threads', cpuMs, 'ms a mail')
  for (const each of MODELLED)
    figure(BENCH, `model_${each}_cores`, Math.min(1000 / mainMs, (1000 * each) / cpuMs), 'mails/s')
}
