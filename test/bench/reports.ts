// Aggregate reports: the time to read one in a worker thread, by how much the memory of the process grows in the
// meantime, and the longest pause of the thread that serves. Then large ones that come to a server (report-flood.ts).
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { reportReader } from '../../src/reports/reading/readers.ts'
import { LIMITS } from '../../src/reports/reading/report.ts'
import { dmarc, gzip, mail, part, record, TIMES, utf16 } from '../reports/written.ts'
import { flood } from './report-flood.ts'

const ROUNDS = 5

const ofRecords = (many: number): string =>
  dmarc({ records: Array.from({ length: many }, (_, n) => record({ address: `10.0.${n >> 8}.${n & 255}` })).join('') })

function filled(begin: string, piece: string, end: string): Buffer {
  const [head = '', tail = ''] = dmarc({ records: '|' }).split('|')
  const room = LIMITS.unpacked - Buffer.byteLength(head + begin + end + tail)
  return Buffer.from(head + begin + piece.repeat(Math.floor(room / Buffer.byteLength(piece))) + end + tail)
}

const CASES: Record<string, () => Buffer> = {
  '10,000 records': () => Buffer.from(ofRecords(10_000)),
  '20,000 records': () => Buffer.from(ofRecords(20_000)),
  '20,000 records, gzip in a mail': () => mail(part(gzip(ofRecords(20_000)))),
  '10,000 records, UTF-16': () => utf16(ofRecords(10_000)),
  '20 MB of comments': () => filled('', '<!-- -->', ''),
  '20 MB of entities': () => filled('<a>', '&amp;', '</a>'),
  '20 MB of elements': () => filled('', '<a/>', ''),
  '1 GB in a gzip of 1 MB': () => gzip(Buffer.alloc(1_000_000_000)),
}

export async function reports(): Promise<void> {
  for (const [report, make] of Object.entries(CASES)) {
    const octets = make()
    const reader = reportReader()
    await reader.read(Buffer.from(dmarc()), TIMES)
    const delays = monitorEventLoopDelay({ resolution: 1 })
    const before = process.memoryUsage.rss()
    let most = before
    const looks = setInterval(() => (most = Math.max(most, process.memoryUsage.rss())), 5)
    const times: number[] = []
    let said = ''
    delays.enable()
    for (let round = 0; round < ROUNDS; round++) {
      const begun = performance.now()
      const reading = await reader.read(octets, TIMES)
      times.push(performance.now() - begun)
      said = reading.outcome === 'read' ? 'read' : reading.why
    }
    delays.disable()
    clearInterval(looks)
    await reader.close()
    console.log(
      JSON.stringify({
        bench: 'reports',
        report,
        mb: Math.round(octets.length / 1e5) / 10,
        said,
        ms: Math.round(times.toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)]!),
        memory_mb: Math.round((most - before) / 1024 / 1024),
        longest_pause_ms: Math.round(delays.max / 1e5) / 10,
      }),
    )
  }
  await flood()
}
