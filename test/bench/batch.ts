// One email with 100 KB of HTML for 1,000 recipients, as one request: the time until the answer, the longest time in
// which the main thread was blocked, and the bytes written, until the answer and until all emails were delivered.
import { arrived, figure, html, startServer, startSink } from './rig.ts'
import { writtenKb } from './usage.ts'

const BENCH = 'batch'
const RECIPIENTS = 1000
const ROUNDS = 3

export async function batch(): Promise<void> {
  const sink = await startSink()
  const server = await startServer(sink.port)
  try {
    for (let round = 0; round < ROUNDS; round++) {
      await server.ask('reset')
      const before = writtenKb(server.pid)
      const start = performance.now()
      const response = await fetch(`http://127.0.0.1:${server.port}/api/v1/outbound-email-batches`, {
        method: 'POST',
        headers: { authorization: `Bearer ${server.token}`, 'content-type': 'application/vnd.api+json' },
        body: batchBody(round),
      })
      const answer = await response.text()
      const ms = performance.now() - start
      if (response.status !== 201) throw new Error(answer.slice(0, 500))
      const { loopMaxMs } = await server.ask('report')
      const written = writtenKb(server.pid) - before
      await arrived(sink, (round + 1) * RECIPIENTS)
      figure(BENCH, 'answered', ms, 'ms')
      figure(BENCH, 'event_loop_max_until_answered', loopMaxMs, 'ms')
      figure(BENCH, 'written_per_recipient', written / RECIPIENTS, 'KB')
      figure(BENCH, 'delivered', (RECIPIENTS / (performance.now() - start)) * 1000, 'mails/s')
    }
  } finally {
    await server.stop()
    sink.stop()
  }
}

const batchBody = (round: number): string =>
  JSON.stringify({
    data: {
      type: 'outbound-email-batches',
      attributes: {
        email: {
          from: 'hello@bench.example',
          subject: 'News for {{name}}',
          html: html(round, 100_000).replace('</body>', '<p>{{name}}</p></body>'),
          stream: 'bulk',
          unsubscribe: { uris: ['https://list.example/leave/{{token}}'], one_click: true },
        },
        recipients: Array.from({ length: RECIPIENTS }, (_, index) => ({
          to: `reader${round}-${index}@receiver.example`,
          variables: { name: `Reader ${index}`, token: `${round}-${index}` },
          metadata: { id: String(index) },
        })),
      },
    },
  })
