// `npm run bench -- warmup`: the cost of warm-up if it counts every email, with 8 sources and 1,000 receivers.
import type { ConfigInput } from '../../src/base/config.ts'
import { driven } from './posts.ts'
import { arrived, figure, mailBody, post, startServer, startSink } from './rig.ts'
import { inTurn, measured, tell, type Round } from './turns.ts'

const BENCH = 'warmup'
const POSTERS = 50
const RECEIVERS = 1000
const SOURCES = Array.from({ length: 8 }, (_, n) => `127.0.0.${n + 1}`)

export async function warmup(count: number, rounds: number): Promise<void> {
  // Loopback counts as a receiver and no limit is reached, so that only the counting is measured.
  const counted = { private: true, transactional_overflow: 'send', transactional_overflow_factor: 0 } as const
  const sides = await inTurn(rounds, {
    without: () => delivered(count, { enabled: false }),
    with: () => delivered(count, counted),
  })
  for (const side of ['without', 'with'] as const) tell(BENCH, side, sides[side])
  for (const name of ['perSecond', 'mainCpuMs', 'cpuMs'] as const)
    figure(BENCH, `ratio_${name}`, sides.with[name]! / sides.without[name]!, 'times')
}

async function delivered(count: number, warming: ConfigInput['warmup'] & object): Promise<Round> {
  const sink = await startSink()
  const config: ConfigInput = { warmup: warming, delivery: { port: sink.port, source: SOURCES } }
  const server = await startServer(sink.port, config)
  try {
    const body = (index: number): string =>
      mailBody(index, { to: `reader${index}@d${index % RECEIVERS}.example`, text: `Mail ${index}` })
    const drive = (many: number) => driven('node', () => post({ ...server, count: many, posters: POSTERS, body }))
    // The pairs of all receivers exist when the time begins.
    await drive(RECEIVERS)
    await arrived(sink, RECEIVERS)
    const settle = () => arrived(sink, RECEIVERS + count)
    const round = await measured(server, count, { drive: () => drive(count), settle, sink })
    const { statements } = await server.ask('report')
    const counted = Object.keys(statements).some((sql) => sql.startsWith('insert into warmup_days'))
    if (counted !== (warming.enabled ?? true)) throw new Error(`warm-up ${counted ? 'counted' : 'did not count'}`)
    return round
  } finally {
    await server.stop()
    sink.stop()
  }
}
