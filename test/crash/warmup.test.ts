// kill -9 at random moments while mail is sent within a daily limit of warm-up: a receiving server never gets more
// recipients than the limit, regardless of the number of kills.
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

const ROUNDS = Number(process.env['POSTRIDER_CRASH_ROUNDS'] ?? 3)
const SEED = Number(process.env['POSTRIDER_CRASH_SEED'] ?? 1)
/** Two receivers in each round. */
const domainsOf = (round: number): string[] => [`one${round}.test`, `two${round}.test`]
const DOMAINS = Array.from({ length: ROUNDS }, (_, round) => domainsOf(round)).flat()
/** To each receiver. The first step of the schedule is 20. */
const POSTED = 30

test(`${ROUNDS} kills never cause more mail than the daily limit of a receiver`, async () => {
  const dataDir = temporaryDirectory('crash')
  const random = seeded(SEED)
  const asked = new Map<string, Set<string>>(DOMAINS.map((domain) => [domain, new Set()]))
  const exchanger = await startTestExchanger({
    answer(command) {
      const [, to, domain] = /^RCPT TO:<([^@]*@(.*))>/.exec(command) ?? []
      if (to !== undefined && domain !== undefined) asked.get(domain)?.add(to)
      // A third of the recipients is deferred each time.
      return to !== undefined && random() < 1 / 3 ? '450 4.2.0 Greylisted' : undefined
    },
  })
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
  await setUp.activeDomain('here.test')
  for (const domain of DOMAINS) setUp.route(domain)
  await setUp.appliance.stop()
  const more = `[delivery]
port = ${exchanger.port}
retry = ["100ms"]
[warmup]
private = true
transactional_overflow = "wait"
`
  const configFile = configFor(dataDir, setUp.dns, more)
  let server: Server | undefined
  try {
    for (let round = 0; round < ROUNDS; round++) {
      server = await startServer(configFile)
      const { url } = server
      const before = exchanger.commands.length
      let killed = false
      const posters = Promise.all(
        domainsOf(round).flatMap((domain) =>
          Array.from({ length: POSTED }, async (_, n) => {
            const body = JSON.stringify(mail({ to: `r${round}n${n}@${domain}` }))
            const headers = { authorization: `Bearer ${setUp.token}`, 'content-type': JSON_API }
            const answer = await fetch(`${url}/api/v1/outbound-emails`, { method: 'POST', headers, body }).catch(
              (thrown: unknown) => {
                if (!killed) throw thrown
              },
            )
            if (answer) assert.equal(answer.status, 201)
          }),
        ),
      )
      const moment = before + Math.floor(random() * 80) + 5
      await until(
        // Email of earlier rounds is retried immediately.
        () => exchanger.commands.length >= moment && domainsOf(round).every((domain) => asked.get(domain)!.size > 0),
        'the moment',
      )
      killed = true
      server.process.kill('SIGKILL')
      await posters
      await server.ended
    }
    server = await startServer(configFile)
    const store = openStore(dataDir)
    try {
      const open = raw<{ n: number }>(
        `select count(*) as n from deliveries
         where status = 'active' or (status = 'queued' and coalesce(response, '') not like 'warm-up:%')`,
      )
      await until(() => store.first(open)!.n === 0, 'everything is settled or waits')
      for (const [domain, recipients] of asked) {
        const days = store.all(
          raw<{ tried: number }>(
            `select d.tried from warmup_days d join warmups w on w.key = d.warmup_key where w.receiver = ? order by d.day`,
            [domain],
          ),
        )
        // More than one day if midnight passed: then the second step may apply. Zero if the kill came before any post
        // to this domain was accepted.
        assert.ok(days.length <= 2, `${days.length} days`)
        for (const [index, { tried }] of days.entries()) assert.ok(tried <= 20 * (index + 1), `${tried} at ${domain}`)
        const places = days.reduce((sum, { tried }) => sum + tried, 0)
        assert.ok(recipients.size <= places, `${recipients.size} asked for at ${domain}, with ${places} places`)
        // A recipient counts once a day, for all its attempts and kills.
        const placed = raw<{ n: number }>(
          'select count(*) as n from deliveries where lane = ? and tried_day is not null',
          [domain],
        )
        if (days.length === 1) assert.equal(places, store.first(placed)!.n, domain)
      }
      assert.ok(
        [...asked.values()].some(({ size }) => size >= 5),
        'mail was sent',
      )
    } finally {
      store.close()
    }
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)
  } finally {
    if (server?.process.exitCode === null && server.process.signalCode === null) server.process.kill('SIGKILL')
    await setUp.stop()
    await exchanger.close()
  }
})
