// Large valid reports that arrive at a server over SMTP: the growth of its memory, and the most CPU time of a turn of
// its main thread. The same emails to an ordinary inbox show the cost of receiving them.
import { gzipSync } from 'node:zlib'
import { LIMITS } from '../../src/reports/reading/report.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { memoryOf } from '../kit/memory.ts'
import { deliver } from '../kit/sender.ts'
import { configFor, startServer } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'
import { DAY, DMARC_TO, dmarcReport, mailWith, signerOf, type Signer } from '../reports/reporter.ts'

const INBOX = 'box@here.test'
const FROM = 'noreply@google.test'
const FLOOD = 10
const LOOK = 5

let ids = 0
const begin = Math.floor(Date.now() / 1000 / DAY) * DAY - DAY

/** A valid report of so many records, each of about so many bytes: they differ in their addresses. */
function xmlOf(octets: number, many: number): string {
  const signed = Array.from({ length: 14 }, (_, n) => `signer-${n}.with-a-long-name.example`)
  const wide = (number: number) =>
    Array.from({ length: many }, (_, n) => ({ address: `10.0.${n >> 8}.${n & 255}`, signed: signed.slice(0, number) }))
  const id = `flood-${++ids}`
  const of = (number: number): string => dmarcReport({ begin, id, records: wide(number) }).replaceAll(/\n */g, '')
  const per = (of(2).length - of(1).length) / many
  return of(1 + Math.floor((octets - of(1).length / many) / per))
}

const CASES: Record<string, (to: string) => string> = {
  'a report of 17 MB': (to) => mailWith(xmlOf(720, LIMITS.records), { from: FROM, to }, 'text/xml'),
  'a report of 20 MB, gzip': (to) => mailWith(gzipSync(xmlOf(1000, LIMITS.records)), { from: FROM, to }),
}
interface Flood {
  dataDir: string
  config: string
  sign: Signer
}

/** A separate server that gets these messages, all at once. */
async function under({ config, dataDir, sign }: Flood, name: string, messages: readonly string[], to: string) {
  let said = ''
  const server = await startServer(config, {
    limit: `export NODE_OPTIONS=--import=${new URL('../hostile/longest-turn.ts', import.meta.url).href}`,
    heard: (chunk) => (said += chunk),
  })
  const store = openStore(dataDir)
  const host = { host: '127.0.0.1', port: server.smtp[0]! }
  const pid = server.process.pid!
  const isDone = (): boolean => store.first(raw('select 1 from inbound_waiting')) === undefined
  const small = await sign(
    mailWith(gzipSync(dmarcReport({ begin, id: `small-${++ids}` })), { from: FROM, to: DMARC_TO }),
  )
  await deliver(host, { from: FROM, to: DMARC_TO, message: small })
  await until(isDone, 'the first report')
  server.process.kill('SIGURG')
  said = ''
  const before = memoryOf(pid)
  let most = before
  const looks = setInterval(() => (most = Math.max(most, memoryOf(pid))), LOOK)
  const started = performance.now()
  await Promise.all(messages.map((message) => deliver(host, { from: FROM, to, message })))
  await until(isDone, 'everything read')
  const ms = performance.now() - started
  clearInterval(looks)
  const turns = [...said.matchAll(/"longest turn","ms":([\d.]+)/g)].map(([, each]) => Number(each))
  const read = store.one(raw<{ n: number }>(`select count(*) as n from aggregate_reports where outcome = 'read'`)).n
  console.log(
    JSON.stringify({
      bench: 'reports',
      server: name,
      mb: Math.round(messages[0]!.length / 1e5) / 10,
      at_once: messages.length,
      read,
      ms: Math.round(ms),
      memory_mb: Math.round((most - before) / 1024),
      longest_turn_ms: Math.round(Math.max(0, ...turns) * 10) / 10,
    }),
  )
  store.close()
  server.process.kill('SIGTERM')
  await server.ended
}

export async function flood(): Promise<void> {
  const dataDir = temporaryDirectory('report-flood')
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
  await setUp.activeDomain('here.test')
  await setUp.api('POST', '/inboxes', document('inboxes', { name: 'box', address: INBOX }))
  await setUp.appliance.stop()
  const sign = await signerOf(setUp.dns, 'google.test')
  const rig = { dataDir, config: configFor(dataDir, setUp.dns), sign }
  try {
    for (const [name, make] of Object.entries(CASES))
      for (const [to, many] of [
        [INBOX, 1],
        [INBOX, FLOOD],
        [DMARC_TO, 1],
        [DMARC_TO, FLOOD],
      ] as const) {
        const messages: string[] = []
        for (let n = 0; n < many; n++) messages.push(await sign(make(to)))
        await under(rig, to === INBOX ? `${name}, to an inbox` : name, messages, to)
      }
  } finally {
    await setUp.dns.close()
  }
}
