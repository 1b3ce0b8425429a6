// kill -9 at random moments under load: every email that was answered with 201 arrives, and arrives twice only if the
// connection was cut between the final dot and the commit of its result.
//
// The server is a separate process, `postrider serve`, with the system's clock. DNS and receiving server are the kit's.
// The moments are drawn from a seed (POSTRIDER_CRASH_SEED): a number of answers and emails after the first 201.
// POSTRIDER_CRASH_ROUNDS is the number of rounds.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { openStore } from '../../src/store/open.ts'
import { JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger } from '../kit/exchanger.ts'
import { seeded } from '../kit/seeded.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'
import { mail } from '../mail/mails.ts'

const ROUNDS = Number(process.env['POSTRIDER_CRASH_ROUNDS'] ?? 2)
const SEED = Number(process.env['POSTRIDER_CRASH_SEED'] ?? 1)
/** Posters at once, and the most answers and emails in a round. */
const POSTERS = 8
const LONGEST = 300

test(`killed ${ROUNDS} times under load: no accepted email is lost, and duplicates occur only if a connection was cut`, async (t) => {
  const dataDir = temporaryDirectory('crash')
  const random = seeded(SEED)

  // Which emails went over which connection, in order, and whether a reply was sent after the last of them.
  const messageId = (message: string): string => /^Message-ID:\s+(<.*>)\r$/m.exec(message)![1]!
  const copies: { id: string; to: string; connection: number }[] = []
  const unfinished = new Map<number, string>()
  const exchanger = await startTestExchanger({
    // Any further command on a connection means that the result of the email before it was settled.
    answer: (_, connection) => void unfinished.delete(connection),
    final: ({ message, to }, connection) => {
      const id = messageId(message)
      copies.push({ id, to: to[0]!, connection })
      unfinished.set(connection, id)
      return undefined
    },
  })
  // A first appliance makes the user, the token and an active domain, and leaves its DNS running.
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
  await setUp.activeDomain('here.test')
  for (let n = 0; n < 5; n++) {
    setUp.dns.set(`d${n}.test`, 'MX', [`10 mx.d${n}.test`])
    setUp.dns.set(`mx.d${n}.test`, 'A', ['127.0.0.1'])
  }
  await setUp.appliance.stop()
  const configFile = configFor(
    dataDir,
    setUp.dns,
    `[delivery]
port = ${exchanger.port}
retry = ["200ms"]
`,
  )

  const promised = new Set<string>()
  let sent = 0
  let server: Server | undefined
  try {
    for (let round = 0; round < ROUNDS; round++) {
      server = await startServer(configFile)
      const { url } = server
      let killed = false
      const first = Promise.withResolvers<void>()
      const poster = async (): Promise<void> => {
        while (!killed) {
          const n = sent++
          const to = `n${n}@d${n % 5}.test`
          // One in ten is large enough for the spool.
          const html = n % 10 === 0 ? `<p>${'large '.repeat(50_000)}</p>` : '<p>Hello</p>'
          try {
            const response = await fetch(`${url}/api/v1/outbound-emails`, {
              method: 'POST',
              headers: { authorization: `Bearer ${setUp.token}`, 'content-type': JSON_API },
              body: JSON.stringify(mail({ to, html, idempotency_key: `n${n}` })),
            })
            // The status line is the promise. The body may be cut off with the server.
            if (response.status === 201) {
              promised.add(to)
              first.resolve()
              await response.arrayBuffer()
            } else assert.fail(`${response.status}: ${await response.text()}`)
          } catch (thrown) {
            if (thrown instanceof assert.AssertionError) throw thrown
            // Cut off: no answer, no promise.
            if (!killed) throw thrown
          }
        }
      }
      const posters = Promise.all(Array.from({ length: POSTERS }, poster))
      await Promise.race([first.promise, posters])
      const moment = promised.size + copies.length + random() * LONGEST
      await until(() => promised.size + copies.length >= moment, 'the moment')
      killed = true
      server.process.kill('SIGKILL')
      await posters
      assert.equal(await server.ended, 'SIGKILL')
    }
    const beforeLast = copies.length

    // One more start, and everything is worked off.
    server = await startServer(configFile)
    const store = openStore(dataDir)
    try {
      const open = raw<{ n: number }>(`select count(*) as n from deliveries where status in ('queued', 'active')`)
      await until(() => store.first(open)!.n === 0, 'an empty queue')
      const states = store.all(raw('select status, count(*) as n from outbound_emails group by status'))
      assert.equal(states.length, 1, JSON.stringify(states))
      assert.equal((states[0] as { status: string }).status, 'delivered')
      const twice = store.all(
        raw(
          `select email_key, type, count(*) as n from events where type in ('email.sent', 'email.delivered') group by 1, 2 having n > 1`,
        ),
      )
      assert.deepEqual(twice, [], 'each event once')
      assert.deepEqual(store.all(raw('pragma integrity_check')), [{ integrity_check: 'ok' }])
    } finally {
      store.close()
    }
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)

    const count = Map.groupBy(copies, ({ id }) => id)
    const arrived = new Set(copies.map(({ to }) => to))
    const lost = [...promised].filter((to) => !arrived.has(to))
    assert.deepEqual(lost, [], 'no mail that was answered with 201 is lost')
    assert.equal(arrived.size, count.size, 'a mail that comes again comes under the same Message-ID')
    let duplicates = 0
    for (const [id, list] of count) {
      // Every copy except the last one was the last email of its connection, before its result was committed.
      for (const { connection } of list.slice(0, -1)) {
        duplicates++
        assert.equal(unfinished.get(connection), id, `${id} came again although the connection went on after it`)
      }
    }
    assert.ok(promised.size > ROUNDS, 'there was load')
    t.diagnostic(
      `${ROUNDS} kills (seed ${SEED}): ${promised.size} promised, ${count.size} arrived, ${duplicates} copies too many, ` +
        `${copies.length - beforeLast} after the last start`,
    )
  } finally {
    if (server?.process.exitCode === null && server.process.signalCode === null) {
      server.process.kill('SIGKILL')
      await server.ended
    }
    await exchanger.close()
    await setUp.dns.close()
  }
})
