// The first days of a new address, with the clock turned: five receivers, deferrals at one from day 9 on, a block at
// another. Nothing passes an allowance, nothing is lost or doubled (DV102). POSTRIDER_WARMUP_DAYS is the number of
// days; kill -9 at any moment is test/crash/warmup.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { startTestExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'
import { mailsOf } from '../mail/mails.ts'

const DAYS = Number(process.env['POSTRIDER_WARMUP_DAYS'] ?? 12)
const DOMAINS = ['one.test', 'two.test', 'three.test', 'slow.test', 'wall.test']
const [SLOW, WALL] = ['slow.test', 'wall.test']
/** Mails to each receiver on a day. */
const POSTED = 26
/** From this day on one receiver defers much, on this day another blocks. */
const DEFERS_FROM = 9
const BLOCKS_ON = 6

test('the first days of a new address: a table of allowance, tried and waiting by day (DV102)', async (t) => {
  await using exchanger = await startTestExchanger()
  await using postrider = await startTestAppliance({
    config: {
      warmup: { private: true, transactional_over: 'wait' },
      delivery: { port: exchanger.port },
    },
    domains: ['here.test'],
    routes: DOMAINS,
  })
  const { clock } = postrider
  const { store } = postrider.appliance.deps
  const { post } = mailsOf(() => postrider)
  let day = 1
  const askedToday = new Map<string, Set<string>>()
  exchanger.script.answer = (command) => {
    const [, to, domain] = /^RCPT TO:<([^@]*@(.*))>/.exec(command) ?? []
    if (to === undefined || domain === undefined) return undefined
    askedToday.set(domain, (askedToday.get(domain) ?? new Set()).add(to))
    const digit = Number(/(\d)@/.exec(to)?.[1])
    if (domain === SLOW && day >= DEFERS_FROM && digit < 3)
      return '451 4.7.0 Your IP address is on our blocklist for now'
    return domain === WALL && day === BLOCKS_ON ? '554 5.7.1 Your IP address is blocked' : undefined
  }
  clock.leap(DAY - (clock.now() % DAY) + HOUR)
  const rows = [['day', ...DOMAINS.map((domain) => domain.replace('.test', ''))].join('\t')]
  const posted = new Set<string>()
  /** The step of a receiver at the end of the day before: a day raises it by one at most. */
  const steps = new Map<string, number>()
  for (; day <= DAYS; day++) {
    askedToday.clear()
    for (const domain of DOMAINS)
      for (let n = 0; n < POSTED; n++) {
        const to = `d${day}n${n}@${domain}`
        await post({ to })
        posted.add(to)
      }
    const open = raw<{ n: number }>(
      `select count(*) as n from deliveries where status = 'active'
         or (status = 'queued' and next_attempt_at <= ?)`,
      [clock.now()],
    )
    await until(() => store.one(open).n === 0, `day ${day} is over`)
    const cells = DOMAINS.map((domain) => {
      const { tried, step, status } = store.one(
        raw<{ tried: number; step: number; status: string }>(
          `select coalesce(d.tried, 0) as tried, w.step, w.status from warmups w
             left join warmup_days d on d.warmup_key = w.key and d.day = ?
           where w.receiver = ?`,
          [Math.floor(clock.now() / DAY), domain],
        ),
      )
      const waiting = store.one(
        raw<{ n: number }>(
          `select count(*) as n from deliveries where lane = ? and status = 'queued' and response like 'warm-up:%'`,
          [domain],
        ),
      ).n
      const allowance = 20 * 2 ** step
      const asked = askedToday.get(domain)?.size ?? 0
      const most = 20 * 2 ** ((steps.get(domain) ?? -1) + 1)
      assert.ok(tried <= most, `${tried} tried at ${domain} on day ${day}, ${most} at most`)
      steps.set(domain, step)
      assert.ok(asked <= tried, `${asked} asked for and ${tried} counted at ${domain} on day ${day}`)
      return `${status} ${allowance}/${tried}/${waiting}`
    })
    rows.push([day, ...cells].join('\t'))
    clock.leap(DAY)
    await until(
      () => store.one(raw<{ n: number }>(`select count(*) as n from deliveries where status = 'active'`)).n === 0,
      'a quiet moment',
    )
  }
  t.diagnostic(`allowance/tried/waiting\n${rows.join('\n')}`)
  const copies = new Map<string, number>()
  for (const { to } of exchanger.heard) copies.set(to[0]!, (copies.get(to[0]!) ?? 0) + 1)
  assert.deepEqual(
    [...copies].filter(([, times]) => times > 1),
    [],
    'nothing is doubled',
  )
  const known = store.all(raw<{ address: string }>('select address from deliveries')).map(({ address }) => address)
  assert.deepEqual(
    [...posted].filter((to) => !known.includes(to)),
    [],
    'nothing is lost',
  )
})
