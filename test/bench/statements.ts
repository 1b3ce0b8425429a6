// `npm run bench -- statements`: how many statements, rows read and rows written one accepted and delivered mail costs,
// counted in the store. Figures of work, not of time: they are the same on every machine.
// Emails are posted one after the other by a few posters, so that little is shared between them. `begin`, `commit`,
// savepoints and `pragma data_version` are counted apart: all writes or reads of a moment share them.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { compiledAgain } from './compilations.ts'
import { begin, draft, ended } from './campaign.ts'
import { INBOX, makeInbox } from './inbound.ts'
import { smtpSource } from './peer/postfix.ts'
import { arrived, figure, mailBody, post, startServer, startSink, type Cost, type Report, type Server } from './rig.ts'

const BENCH = 'statements'
const POSTERS = 10
/** How many emails warm up, so that one-time reads are not counted for each. */
const WARM = 50
const TIMEOUT = 60_000

export async function statements(count: number): Promise<void> {
  const sink = await startSink()
  const server = await startServer(sink.port)
  const posted = async (recipients: number, many: number): Promise<void> => {
    const before = sink.count()
    await post({ port: server.port, token: server.token, count: many, posters: POSTERS, body: bodyTo(recipients) })
    await arrived(sink, before + many)
  }
  try {
    await counted(server, 'one recipient', count, (many) => posted(1, many))
    await counted(server, 'five recipients', count, (many) => posted(5, many))
    await makeInbox(server)
    await counted(server, 'inbound message', count, async (many) => {
      const before = read(server)
      await smtpSource({
        port: server.smtpPort,
        count: many,
        bytes: 4096,
        sessions: POSTERS,
        reconnect: false,
        timeoutMs: TIMEOUT,
        to: INBOX,
      })
      while (read(server) < before + many) await sleep(50)
    })
    const { id } = await draft(server, 4 * count)
    await counted(server, 'campaign recipient', 4 * count, async (many) => {
      // All at once: data that is read once for a campaign is part of its cost.
      if (many === WARM) return
      await begin(server, id)
      await ended(server, id)
    })
  } finally {
    await server.stop()
    sink.stop()
  }
}

/** How many messages were read and are in an inbox. */
function read({ dataDir }: Server): number {
  const database = new Database(join(dataDir, 'postrider.db'), { readonly: true })
  try {
    return database.prepare('select count(*) from inbound_emails').pluck().get() as number
  } finally {
    database.close()
  }
}

const bodyTo =
  (recipients: number) =>
  (index: number): string => {
    const copies = Array.from({ length: recipients - 1 }, (_, each) => `copy${each}.${index}@receiver.example`)
    return mailBody(index, { text: `Mail ${index}`, ...(copies.length > 0 ? { cc: copies } : {}) })
  }

/** Waits until the store has had no new statement that writes for a while. */
async function quiet(server: Server): Promise<void> {
  let last = -1
  for (let same = 0; same < 5;) {
    const { statements: now } = await server.ask('report')
    const written = Object.values(now).reduce((sum, cost) => sum + cost.written, 0)
    same = written === last ? same + 1 : 0
    last = written
    await sleep(100)
  }
}

/** Prints the cost of each of `count` emails, and the statements behind it. */
async function counted(
  server: Server,
  name: string,
  count: number,
  run: (count: number) => Promise<unknown>,
): Promise<void> {
  await run(WARM)
  await quiet(server)
  await server.ask('reset')
  const again = await compiledAgain(server.pid, async () => {
    await run(count)
    await quiet(server)
  })
  tell(name, count, await server.ask('report'))
  figure(BENCH, `${name}: statements compiled again`, again ?? 'not counted: perf is needed', `in ${count} mails`)
}

const SHARED = /^(?:begin|commit|savepoint|release|rollback|pragma)/

function tell(name: string, count: number, { statements: each }: Report): void {
  const all = Object.entries(each)
  const sum = (rows: typeof all, what: keyof Cost): number => rows.reduce((total, [, cost]) => total + cost[what], 0)
  const own = all.filter(([sql]) => !SHARED.test(sql))
  figure(BENCH, `${name}: statements`, sum(own, 'calls') / count, 'a mail')
  figure(
    BENCH,
    `${name}: begin, commit, savepoints`,
    sum(
      all.filter(([sql]) => SHARED.test(sql)),
      'calls',
    ) / count,
    'a mail',
  )
  figure(BENCH, `${name}: rows read`, sum(own, 'read') / count, 'a mail')
  figure(BENCH, `${name}: rows written`, sum(own, 'written') / count, 'a mail')
  for (const [sql, { calls }] of own.toSorted((a, b) => b[1].calls - a[1].calls))
    if (calls / count >= 0.02)
      console.error(`${(calls / count).toFixed(2).padStart(7)}  ${sql.replace(/\s+/g, ' ').slice(0, 150)}`)
}
