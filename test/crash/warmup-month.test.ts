// The first days of a new address at five providers. The clock of the server is turned, and the server is killed (kill
// -9) at a random moment of each day: a campaign and single emails, deferrals at one provider, a block at another, a
// quiet week. Daily limits are never exceeded, emails are never lost or doubled, and single emails are attempted within
// a minute. POSTRIDER_WARMUP_DAYS is the number of days, POSTRIDER_WARMUP_TABLE a file for the table.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { DAY, HOUR, MINUTE, SECOND } from '../../src/base/clock.ts'
import type { ConfigInput } from '../../src/base/config.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { shapingRules } from '../../src/smtp/shaping.ts'
import { scheduleOf, TOTAL } from '../../src/warmup/schedule.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { seeded } from '../kit/seeded.ts'
import { startTurnedServer, type TurnedServer } from '../kit/turned-server.ts'
import { until } from '../kit/until.ts'
import { mail } from '../mail/mails.ts'

const DAYS = Number(process.env['POSTRIDER_WARMUP_DAYS'] ?? 9)
const SEED = Number(process.env['POSTRIDER_CRASH_SEED'] ?? 1)
/** Providers of the shipped shaping file, and one that it does not name: the host of its receiving server. */
const PROVIDERS = {
  Google: 'gmail-smtp-in.l.google.com',
  'Microsoft consumer': 'outlook-com.olc.protection.outlook.com',
  Yahoo: 'mta5.am0.yahoodns.net',
  Telekom: 'mx00.t-online.de',
  'small.test': 'mx.small.test',
}
const RECEIVERS = Object.keys(PROVIDERS)
const EXCHANGERS = Object.fromEntries(Object.values(PROVIDERS).map((host, at) => [`people${at}.test`, host]))
const DOMAINS = Object.keys(EXCHANGERS)
const [, SLOW, WALL, , SMALL] = DOMAINS as [string, string, string, string, string]
const DEFERS_FROM = 9
const BLOCKS_ON = 6
const isQuiet = (day: number): boolean => day >= 16 && day <= 22
/** Contacts of each provider in a campaign, by the day on which it starts. */
const CAMPAIGNS: Record<number, number> = DAYS > 10 ? { 1: 900, 9: 600, 23: 800 } : { 1: 60, 9: 60 }
/** Single emails to each provider on a day. Once there are so many to the smallest that they exceed its limit. */
const SINGLE = 4
const MUCH = { day: 2, mails: 60 }

interface Cell {
  daily_limit: number
  tried: number
  waiting: number
}

/** Midnight before the first day. */
const BEFORE = Date.UTC(2026, 0, 15)

/** The recipients that the providers and the relay got and accepted, by the time of the server's clock. */
class World {
  day = 0
  now = BEFORE + 12 * HOUR
  /** The time of the first RCPT for a recipient. */
  readonly firstAsked = new Map<string, number>()
  /** By domain, the recipients of today's RCPT commands. */
  readonly today = new Map<string, Set<string>>()
  readonly copies = new Map<string, number>()
  /** Recipients that were in progress when the server was killed: it cannot know whether they have their mail. */
  readonly unsure = new Set<string>()
  readonly singles = new Map<string, number>()
  readonly campaigned: string[] = []
  readonly random = seeded(SEED)

  /** The answer to a command. `relay`: of the relay, which takes all. */
  answer(command: string, relay = false): string | undefined {
    const [, to, domain] = /^RCPT TO:<([^@]*@(.*))>/.exec(command) ?? []
    if (to === undefined || domain === undefined) return undefined
    if (!this.firstAsked.has(to)) this.firstAsked.set(to, this.now)
    if (relay) return undefined
    this.today.set(domain, (this.today.get(domain) ?? new Set()).add(to))
    if (domain === SLOW && this.day >= DEFERS_FROM && this.day < DEFERS_FROM + 4 && this.random() < 0.3)
      return '451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation.'
    return domain === WALL && this.day === BLOCKS_ON
      ? '553 5.7.1 [BL21] Connections will not be accepted from 192.0.2.1, because the ip is in a list'
      : undefined
  }

  took(to: string): void {
    this.copies.set(to, (this.copies.get(to) ?? 0) + 1)
  }
}

/** No work is in progress or due, and each campaign has queued all its email. */
const OPEN = `select (select count(*) from deliveries
    where status = 'active' or (status = 'queued' and next_attempt_at <= ?)) +
  (select count(*) from campaigns where status = 'scheduled' or (status = 'sending' and enqueued < coalesce(recipients, 1e9))) as n`

/** The receiving servers have heard so many commands. */
const heardBy = (exchangers: TestExchanger[]): number =>
  exchangers.reduce((sum, { commands }) => sum + commands.length, 0)

/**
 * Waits until no email is due, while time passes. It passes in longer steps while the receiving servers get no command
 * and each single email was attempted: a provider that answers "rate limited" at random is then tried a few times a
 * minute, for most of an hour.
 */
async function settle(server: TurnedServer, world: World, exchangers: TestExchanger[]): Promise<void> {
  let [step, heard] = [SECOND / 4, 0]
  await until(async () => {
    const [open] = await server.rows<{ n: number }>(OPEN, world.now)
    if (open!.n === 0) return true
    const asked = heardBy(exchangers)
    const silent = asked === heard && [...world.singles.keys()].every((to) => world.firstAsked.has(to))
    step = silent ? Math.min(4 * SECOND, step * 2) : SECOND / 4
    heard = asked
    world.now = await server.advance(step)
    return false
  }, `day ${world.day} settles`)
}

/** The pairs in the API, by the name of the receiver. */
async function pairsOf(server: TurnedServer): Promise<Map<string, Record<string, number>>> {
  const { body } = await server.api('GET', '/warmups?page[size]=100')
  return new Map(
    body.data.map(({ attributes }: { attributes: Record<string, number> }) => [attributes['receiver'], attributes]),
  )
}

/** Posts the single emails of a day, and starts its campaign. */
async function write(server: TurnedServer, world: World): Promise<void> {
  const { day, now } = world
  const many = (domain: string): number => (day === MUCH.day && domain === SMALL ? MUCH.mails : SINGLE)
  const each = (count: number, name: string, domain: string): string[] =>
    Array.from({ length: count }, (_, n) => `${name}${day}n${n}@${domain}`)
  if (isQuiet(day)) return
  const contacts = CAMPAIGNS[day]
  if (contacts !== undefined) {
    const kit = campaignKit(() => server as unknown as TestAppliance)
    const [domain] = await server.rows<{ id: string }>('select id from domains')
    const audience = await kit.audience(domain!, `Readers of day ${day}`)
    for (const of of DOMAINS) {
      const people = each(contacts, 'c', of)
      await kit.fill(audience, people)
      world.campaigned.push(...people)
    }
    const { status } = await kit.patch(await kit.draft(audience), { status: 'scheduled' })
    assert.equal(status, 200)
  }
  const singles = DOMAINS.flatMap((domain) => each(many(domain), 's', domain))
  for (const to of singles) world.singles.set(to, now)
  const answers = await Promise.all(singles.map((to) => server.api('POST', '/outbound-emails', mail({ to }))))
  for (const { body, status } of answers) assert.equal(status, 201, JSON.stringify(body))
}

/** Kills the server after a random number of further commands to the receiving servers, or when all work is done. */
async function killed(server: TurnedServer, world: World, exchangers: TestExchanger[], dataDir: string): Promise<void> {
  const moment = heardBy(exchangers) + Math.floor(world.random() * 100)
  await until(
    async () => heardBy(exchangers) >= moment || (await server.rows<{ n: number }>(OPEN, world.now))[0]!.n === 0,
    'the moment',
  )
  await server.kill()
  const store = openStore(dataDir)
  for (const { address } of store.all(
    raw<{ address: string }>(`select address from deliveries where status = 'active'`),
  ))
    world.unsure.add(address)
  store.close()
}

/** The row of a day: the limit of each receiver at the start, and the results of its mail. */
async function rowOf(server: TurnedServer, world: World, dailyLimits: Map<string, number>): Promise<Cell[]> {
  const pairs = await pairsOf(server)
  return [TOTAL, ...RECEIVERS].map((receiver, at) => {
    const { used = 0, waiting = 0 } = pairs.get(receiver) ?? {}
    const daily_limit = dailyLimits.get(receiver)!
    const asked =
      at === 0
        ? [...world.today.values()].reduce((sum, { size }) => sum + size, 0)
        : (world.today.get(DOMAINS[at - 1]!)?.size ?? 0)
    assert.ok(used <= daily_limit, `${used} counted for ${receiver} on day ${world.day}, ${daily_limit} allowed`)
    assert.ok(asked <= used, `${asked} asked for and ${used} counted for ${receiver} on day ${world.day}`)
    return { daily_limit, tried: used, waiting }
  })
}

/** A day: emails are submitted, the server is killed, and all email that is possible is sent. */
async function live(
  world: World,
  of: { dataDir: string; exchangers: TestExchanger[]; start: () => Promise<TurnedServer> },
  running: TurnedServer,
) {
  world.today.clear()
  // The first second: the days before are evaluated, and no limit has changed.
  world.now = await running.leap(BEFORE + world.day * DAY + SECOND - world.now)
  const unjudged = `select 1 from warmups where judged_day < ?`
  await until(
    async () => (await running.rows(unjudged, Math.floor(world.now / DAY) - 1)).length === 0,
    `the days before day ${world.day} are judged`,
  )
  const before = await pairsOf(running)
  const dailyLimits = new Map(
    [TOTAL, ...RECEIVERS].map((receiver) => {
      const [first = 0] = scheduleOf(shapingRules(), receiver).steps
      return [receiver, before.get(receiver)?.['daily_limit'] ?? first]
    }),
  )
  world.now = await running.leap(10 * HOUR)
  await write(running, world)
  await killed(running, world, of.exchangers, of.dataDir)
  const server = await of.start()
  await settle(server, world, of.exchangers)
  return { server, row: await rowOf(server, world, dailyLimits) }
}

/** No email is lost, doubled or late. */
async function judge(server: TurnedServer, world: World): Promise<void> {
  const rows = await server.rows<{ address: string; status: string; response: string | null }>(
    'select address, status, response from deliveries',
  )
  const wanted = [...world.singles.keys(), ...world.campaigned]
  assert.deepEqual(rows.map(({ address }) => address).toSorted(), wanted.toSorted(), 'each has one row')
  const wrong = rows.filter(({ address, response, status }) => {
    const copies = world.copies.get(address) ?? 0
    if (status === 'delivered') return copies === 0 || (copies > 1 && !world.unsure.has(address))
    if (status === 'bounced') return copies > 0 || !address.endsWith(WALL)
    return copies > 0 || status !== 'queued' || !(address.endsWith(SLOW) || response?.startsWith('warm-up:'))
  })
  assert.deepEqual(wrong, [], 'lost or doubled')
  const late = [...world.singles].filter(([to, posted]) => (world.firstAsked.get(to) ?? Infinity) - posted > MINUTE)
  assert.deepEqual(late, [], 'single mail that was tried later than a minute after it was posted')
}

test(`${DAYS} days of a new address with a kill on each stay within the daily limits`, async (t) => {
  const world = new World()
  const dataDir = temporaryDirectory('month')
  const scripted = (relay: boolean) =>
    startTestExchanger({
      answer: (command) => world.answer(command, relay),
      final: ({ to }) => {
        for (const each of to) world.took(each)
        return undefined
      },
    })
  const [exchanger, relay] = [await scripted(false), await scripted(true)]
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(world.now), domains: ['here.test'] })
  for (const [domain, host] of Object.entries(EXCHANGERS)) {
    setUp.dns.set(domain, 'MX', [`10 ${host}`])
    setUp.dns.set(host, 'A', ['127.0.0.1'])
  }
  await setUp.appliance.stop()
  const config: ConfigInput = {
    hostname: 'mx.postrider.test',
    data_dir: dataDir,
    http: { listen: '127.0.0.1:0' },
    smtp: { listen: ['127.0.0.1:0'] },
    network: { allow_private: ['127.0.0.0/8'] },
    api: { rate_limit: 0 },
    workers: { count: 1 },
    watch: { interval: '0' },
    warmup: { private: true, transactional_overflow: 'relay', route: 'spare' },
    delivery: { port: exchanger.port, routes: [{ name: 'spare', host: '127.0.0.1', port: relay.port }] },
  }
  const start = (): Promise<TurnedServer> =>
    startTurnedServer({ config, now: world.now, token: setUp.token, dns: setUp.dns.port })
  let server: TurnedServer | undefined
  try {
    server = await start()
    const table = [['day', 'all', ...RECEIVERS].join('\t')]
    for (world.day = 1; world.day <= DAYS; world.day++) {
      const lived = await live(world, { dataDir, exchangers: [exchanger, relay], start }, server)
      server = lived.server
      const cells = lived.row.map(({ daily_limit, tried, waiting }) => [daily_limit, tried, waiting].join('/'))
      table.push([world.day, ...cells].join('\t'))
      if (world.day === MUCH.day) assert.ok(relay.heard.length > 0, `nothing was relayed:\n${table.join('\n')}`)
    }
    const text = `daily_limit/tried/waiting\n${table.join('\n')}\n`
    t.diagnostic(text)
    const file = process.env['POSTRIDER_WARMUP_TABLE']
    if (file !== undefined) writeFileSync(file, text)
    await judge(server, world)
  } finally {
    await server?.kill()
    await exchanger.close()
    await relay.close()
    await setUp.stop()
  }
})
