// Email to many recipient domains, and the cost of one receiving server that hangs for the others.
import { createServer } from 'node:net'
import { arrived, figure, mailBody, percentile, post, startServer, startSink, TARPIT } from './rig.ts'

const BENCH = 'outbound'
const POSTERS = 50

export async function spread(count: number): Promise<void> {
  for (const domains of [1, 10, 1000])
    figure(BENCH, `delivered_${domains}_domains`, await deliver(count, domains, false), 'mails/s')
  // 10,000 emails by default. In turn, so that other load of the machine affects both.
  const many = Math.round(count * (10 / 3))
  const runs: Record<'without' | 'with', number[]> = { without: [], with: [] }
  for (let round = 0; round < 2; round++) {
    runs.without.push(await deliver(many, 1000, false))
    runs.with.push(await deliver(many, 1000, true))
  }
  const [without, beside] = [runs.without, runs.with].map((values) => percentile(values, 0.5)) as [number, number]
  figure(BENCH, 'others_1000_domains_without_tarpit', without, 'mails/s')
  figure(BENCH, 'others_1000_domains_with_tarpit', beside, 'mails/s')
  figure(BENCH, 'others_tarpit_ratio', beside / without, 'times')
}

/** The cost of TLSA lookups, and of checking the answers for each email: 1,000 signed domains. */
export async function dane(count: number): Promise<void> {
  const many = Math.round(count * (10 / 3))
  const runs: Record<'without' | 'with', number[]> = { without: [], with: [] }
  for (let round = 0; round < 5; round++) {
    runs.without.push(await deliver(many, 1000, false, false))
    runs.with.push(await deliver(many, 1000, false, true))
  }
  const [without, beside] = [runs.without, runs.with].map((values) => percentile(values, 0.5)) as [number, number]
  figure('dane', 'signed_1000_domains_without', without, 'mails/s')
  figure('dane', 'signed_1000_domains_with', beside, 'mails/s')
  figure('dane', 'ratio', beside / without, 'times')
}

/** Emails per second that arrive at domains other than the one whose receiving server may hang. */
async function deliver(count: number, domains: number, tarpit: boolean, dane?: boolean): Promise<number> {
  const sink = await startSink()
  const close = await startTarpit(sink.port)
  const server = await startServer(sink.port, { delivery: { port: sink.port, dane: dane ?? false } })
  try {
    const body = (index: number): string =>
      mailBody(index, {
        to: `reader${index}@${index % domains === 0 && tarpit ? TARPIT : `d${index % domains}.example`}`,
      })
    // Warms caches and compilers, with a separate domain.
    const warm = (index: number): string => body(index).replace(/"to":"[^"]*"/, `"to":"r${index}@warm.example"`)
    await post({ ...server, count: 300, posters: POSTERS, body: warm })
    await arrived(sink, 300)
    if (dane !== undefined) {
      // The DNS answers of every domain are cached before the measurement.
      await post({ ...server, count: domains, posters: POSTERS, body })
      await arrived(sink, 300 + domains)
    }
    const before = dane === undefined ? 300 : 300 + domains
    const others = count - Math.ceil(count / domains) * (domains > 1 ? 1 : 0)
    const start = performance.now()
    await post({ ...server, count, posters: POSTERS, body })
    await arrived(sink, before + others)
    return (others / (performance.now() - start)) * 1000
  } finally {
    close()
    await server.stop()
    sink.stop()
  }
}

/** Greets, and then does not reply. Same port as the sink, another address. */
async function startTarpit(port: number): Promise<() => void> {
  const sockets = new Set<{ destroy(): void }>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    socket.write('220 tarpit\r\n')
    socket.resume()
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.2', resolve)
  })
  return () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
}
