// Large emails: the cost of twenty attachments of 1 MB, and of one email of 39 MB for other users.
import { setTimeout as sleep } from 'node:timers/promises'
import { arrived, figure, html, percentile, post, startServer, startSink } from './rig.ts'

const BENCH = 'outbound'
const POSTERS = 50
const MB = 1024 * 1024

export async function large(): Promise<void> {
  const sink = await startSink()
  const server = await startServer(sink.port)
  try {
    await post({ ...server, count: 500, posters: POSTERS, body: small })
    await arrived(sink, 500)
    const idle = await server.ask('report')

    // One of 39 MB (encoded) while 200 emails per second arrive. Before it, the same without.
    await server.ask('reset')
    const alone = await post({ ...server, count: 600, posters: POSTERS, body: small, rate: 200 })
    await arrived(sink, 1100)
    const before = await server.ask('report')
    const huge = letter(0, 3, 9_450_000)
    await server.ask('reset')
    const one = sleep(500).then(() => post({ ...server, count: 1, posters: 1, body: () => huge }))
    const beside = await post({ ...server, count: 600, posters: POSTERS, body: small, rate: 200 })
    const { latencies } = await one
    await arrived(sink, 1701)
    const after = await server.ask('report')
    figure(BENCH, 'mail_39_mb_json', Buffer.byteLength(huge) / MB, 'MB')
    figure(BENCH, 'mail_39_mb_201', latencies[0]!, 'ms')
    figure(BENCH, 'mail_39_mb_others_201_p99_without', percentile(alone.latencies, 0.99), 'ms')
    figure(BENCH, 'mail_39_mb_others_201_p99', percentile(beside.latencies, 0.99), 'ms')
    figure(BENCH, 'mail_39_mb_event_loop_p99_without', before.loopP99Ms, 'ms')
    figure(BENCH, 'mail_39_mb_event_loop_p99', after.loopP99Ms, 'ms')
    figure(BENCH, 'mail_39_mb_event_loop_max', after.loopMaxMs, 'ms')
    figure(BENCH, 'mail_39_mb_extra_memory', after.peakRssMb - Math.max(before.rssMb, idle.rssMb), 'MB')

    const count = 20
    const twenty = letter(1, 20, MB)
    await server.ask('reset')
    const start = performance.now()
    const posted = await post({ ...server, count, posters: 2, body: () => twenty })
    await arrived(sink, 1701 + count)
    const wallMs = performance.now() - start
    const report = await server.ask('report')
    figure(BENCH, 'attachments_20_mb_delivered', (count / wallMs) * 1000, 'mails/s')
    figure(BENCH, 'attachments_20_mb_201_p50', percentile(posted.latencies, 0.5), 'ms')
    figure(BENCH, 'attachments_20_mb_event_loop_p99', report.loopP99Ms, 'ms')
    figure(BENCH, 'attachments_20_mb_peak_rss', report.peakRssMb, 'MB')
  } finally {
    await server.stop()
    sink.stop()
  }
}

const mail = (index: number, more: object): string =>
  JSON.stringify({
    data: {
      type: 'outbound-emails',
      attributes: {
        from: 'hello@bench.example',
        to: `reader@d${index % 10}.example`,
        subject: `Mail ${index}`,
        html: html(index),
        ...more,
      },
    },
  })
const small = (index: number): string => mail(index, {})

/** An email with `count` attachments of `bytes` each. */
export function letter(index: number, count: number, bytes: number): string {
  const content = Buffer.alloc(bytes, 'What is in a file, again and again. ').toString('base64')
  const attachments = Array.from({ length: count }, (_, n) => ({ filename: `file${n}.txt`, content }))
  return mail(index, { attachments })
}
