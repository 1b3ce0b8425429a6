// Mails posted over the API and delivered to a loopback sink: DKIM signed, durable, one recipient each. In the same run
// Postfix with OpenDKIM relays as many mails of the same size to the same kind of sink, where both are installed.
import { setTimeout as sleep } from 'node:timers/promises'
import { large } from './large.ts'
import { spread } from './spread.ts'
import { figure, installed, mailBody, percentile, post, startServer, startSink } from './rig.ts'

const BENCH = 'outbound'
const POSTERS = 50
/** What our mail of 4 KB html and a line of text has between its header and the final dot. */
const WIRE_BYTES = 4600

export async function outbound(count: number): Promise<void> {
  const ours: number[] = []
  const theirs: number[] = []
  const rounds = 3
  const peer = installed('postfix') && installed('opendkim') && process.getuid?.() === 0
  // In turn, so that what else the machine does falls on both.
  for (let round = 0; round < rounds; round++) {
    ours.push(await run(count, round === 0))
    if (!peer) continue
    const { benchPostfix } = await import('./peer/postfix.ts')
    const result = await benchPostfix({ count, bytes: WIRE_BYTES, concurrency: POSTERS, probe: round === 0 ? 20 : 0 })
    theirs.push(result.deliveredPerSecond)
    if (round === 0) figure(BENCH, 'postfix_opendkim_cpu_per_mail', result.cpuMsPerMail, 'ms')
  }
  // The other kind of mail: without a text, one is made from the html and doubles what is signed and sent.
  figure(BENCH, 'delivered_text_made_from_html', await run(count, false, false), 'mails/s')
  figure(BENCH, 'delivered', percentile(ours, 0.5), 'mails/s')
  if (peer) {
    figure(BENCH, 'postfix_opendkim_delivered', percentile(theirs, 0.5), 'mails/s')
    figure(BENCH, 'ratio', percentile(ours, 0.5) / percentile(theirs, 0.5), 'times')
  } else figure(BENCH, 'postfix_opendkim_delivered', 'not installed: run test/interop/setup.sh as root', '')
  await spread(count)
  await large()
}

/** One round; returns delivered/s, and prints the other figures when asked to. */
async function run(count: number, told: boolean, withText = true): Promise<number> {
  const sink = await startSink()
  const server = await startServer(sink.port)
  try {
    const idle = await server.ask('report')
    const body = (index: number): string => mailBody(index, withText ? { text: `Mail ${index}` } : {})
    // A first few hundred warm up caches and compilers, as a server that has been running is.
    await post({ port: server.port, token: server.token, count: 300, posters: POSTERS, body })
    while (sink.count() < 300) await sleep(5)
    if (told) await paced(server, body)
    const before = sink.count()
    const { cpuMs, mainCpuMs } = await server.ask('report')
    await server.ask('reset')
    const start = performance.now()
    const posted = await post({ port: server.port, token: server.token, count, posters: POSTERS, body })
    while (sink.count() < before + count) {
      if (performance.now() - start > 120_000) throw new Error(`${sink.count() - before} of ${count} mails at the sink`)
      await sleep(2)
    }
    const wallMs = performance.now() - start
    const report = await server.ask('report')
    if (told) {
      figure(BENCH, 'idle_rss', idle.rssMb, 'MB')
      figure(BENCH, 'accepted', (count / posted.wallMs) * 1000, 'mails/s')
      figure(BENCH, 'accepted_201_p50', percentile(posted.latencies, 0.5), 'ms')
      figure(BENCH, 'accepted_201_p99', percentile(posted.latencies, 0.99), 'ms')
      figure(BENCH, 'cpu_per_mail', (report.cpuMs - cpuMs) / count, 'ms')
      figure(BENCH, 'main_thread_cpu_per_mail', (report.mainCpuMs - mainCpuMs) / count, 'ms')
      figure(BENCH, 'event_loop_p99', report.loopP99Ms, 'ms')
      figure(BENCH, 'event_loop_max', report.loopMaxMs, 'ms')
      figure(BENCH, 'peak_rss', report.peakRssMb, 'MB')
    }
    return (count / wallMs) * 1000
  } finally {
    await server.stop()
    sink.stop()
  }
}

/** 50 posters who think between requests: 400 mails a second, what a busy application sends. */
async function paced(server: { port: number; token: string }, body: (index: number) => string): Promise<void> {
  const posted = await post({ ...server, count: 1200, posters: POSTERS, body, rate: 400 })
  figure(BENCH, 'paced_400_per_s_201_p50', percentile(posted.latencies, 0.5), 'ms')
  figure(BENCH, 'paced_400_per_s_201_p99', percentile(posted.latencies, 0.99), 'ms')
}
