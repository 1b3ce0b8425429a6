// How receiving servers treat senders of much email, as a table. All emails must be delivered. Each row has the number
// of counted attempts, the most connections, and the longest time by the clock, which the test turns (D34, D64).
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { learnedLanes, learnedOf } from '../../src/delivery/pacing/lane-memory.ts'
import { LaneSet } from '../../src/delivery/pacing/lane-set.ts'
import { Ways } from '../../src/delivery/queue/ways.ts'
import { parseConfig } from '../../src/base/config.ts'
import { Pace } from '../../src/delivery/pacing/rate.ts'
import { Shaping } from '../../src/smtp/shaping.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { startTestExchanger, testExchanger, type Script } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mailsOf, MINUTE } from '../mail/mails.ts'

const { post, receiver } = mailsOf(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, config: { workers: { count: 2 } }, domains: ['here.test'] }),
)

const MAILS = 60
/** The connections per domain of the shipped shaping. */
const MOST = 20
const WELCOME = '220 mx.test ESMTP'

/** Connections that were let in, at most at once. */
let peak = 0
const taking =
  (most: number) =>
  (open: number): string => {
    if (open > most) return '421 4.7.0 Too many connections'
    peak = Math.max(peak, open)
    return WELCOME
  }

/** Sends a reply to the first command of a kind after a number of emails in a session. */
function afterMails(mails: number, verb: string, words: string): NonNullable<Script['answer']> {
  const carried = new Map<number, number>()
  return (command, connection) => {
    const had = carried.get(connection) ?? 0
    if (command.startsWith(verb) && had >= mails) return words
    if (command.startsWith('DATA')) carried.set(connection, had + 1)
    return undefined
  }
}

/** Lets so many commands of a kind through in each second of the clock. */
function perSecond(most: number, verb: string, words: string): NonNullable<Script['answer']> {
  let [second, taken] = [0, 0]
  return (command) => {
    if (!command.startsWith(verb)) return undefined
    const now = Math.floor(postrider.clock.now() / 1000)
    if (now !== second) [second, taken] = [now, 0]
    return taken++ < most ? undefined : words
  }
}

interface Behaviour {
  name: string
  script?: () => Script
  /** MX records in place of the one of the test's receiving server. */
  exchangers?: string[]
  mails?: number
  /** Recipients of each email. */
  recipients?: number
  /** Attempts that are charged, all recipients together. A pair is the least and the most. */
  charged?: number | [number, number]
  connections?: number
  /** By the clock, in ms, or 0 if no email waits. */
  within?: number
}

const BEHAVIOURS: Behaviour[] = [
  { name: 'accepts one connection at a time', script: () => ({ greeting: taking(1) }), connections: 1 },
  { name: 'accepts two connections at a time', script: () => ({ greeting: taking(2) }), connections: 2 },
  { name: 'accepts five connections at a time', script: () => ({ greeting: taking(5) }), connections: 5 },
  ...(['MAIL', 'RCPT', 'DATA'] as const).map((verb) => ({
    name: `returns 421 to ${verb} after two emails in a session`,
    script: () => ({ answer: afterMails(2, verb, '421 4.7.0 Enough for now') }),
  })),
  {
    name: 'returns 451 to MAIL after two emails in a session',
    script: () => ({ answer: afterMails(2, 'MAIL', '451 4.3.0 Later') }),
  },
  {
    name: 'returns 451 "Too many messages in this session" to RCPT after two emails',
    script: () => ({ answer: afterMails(2, 'RCPT', '451 4.7.0 Too many messages in this session') }),
  },
  {
    name: 'accepts one connection at a time, and returns 421 to RCPT after two emails in a session',
    script: () => ({ greeting: taking(1), answer: afterMails(2, 'RCPT', '421 4.7.0 Enough for now') }),
    connections: 1,
  },
  {
    name: 'accepts one connection at a time, and returns 451 to MAIL after two emails in a session',
    script: () => ({ greeting: taking(1), answer: afterMails(2, 'MAIL', '451 4.3.0 Later') }),
    connections: 1,
  },
  {
    // The email that was handed over has had its attempt.
    name: 'returns 421 to the data of every third email in a session',
    script: () => {
      const carried = new Map<number, number>()
      return {
        final: (_heard, connection) => {
          carried.set(connection, (carried.get(connection) ?? 0) + 1)
          return carried.get(connection)! % 3 === 0 ? '421 4.7.0 Enough for now' : undefined
        },
      }
    },
    charged: [MAILS + 1, 2 * MAILS],
    within: 120 * MINUTE,
  },
  ...(
    [
      ['RCPT', '450 4.7.1 rate limit exceeded'],
      ['MAIL', '451 4.7.0 You exceed the rate of this service'],
      ['RCPT', '421 4.7.0 rate limit exceeded'],
      ['DATA', '451 4.7.0 Slow down'],
    ] as const
  ).map(([verb, words]) => ({
    name: `accepts two ${verb} commands per second, and returns "${words}" to more`,
    script: () => ({ answer: perSecond(2, verb, words) }),
    mails: 30,
    within: 3 * MINUTE,
  })),
  {
    name: 'defers each recipient once (greylisting)',
    script: () => {
      const known = new Set<string>()
      return {
        answer: (command) => {
          if (!command.startsWith('RCPT') || known.has(command)) return undefined
          known.add(command)
          return '451 4.7.1 Greylisted, please come back later'
        },
      }
    },
    charged: 2 * MAILS,
    within: 6 * MINUTE,
  },
  {
    name: 'accepts one recipient per transaction',
    script: () => {
      const asked = new Map<number, number>()
      return {
        answer: (command, connection) => {
          if (command.startsWith('MAIL')) asked.set(connection, 0)
          if (!command.startsWith('RCPT')) return undefined
          asked.set(connection, asked.get(connection)! + 1)
          return asked.get(connection)! > 1 ? '452 4.5.3 Too many recipients' : undefined
        },
      }
    },
    recipients: 3,
    charged: 3 * MAILS,
  },
  { name: 'has a lower priority than an MX host that does not respond', exchangers: ['10 dead', '20 mx'] },
  {
    name: 'returns 421 instead of a greeting for ten minutes',
    script: () => {
      const until = postrider.clock.now() + 10 * MINUTE
      return { greeting: (open) => (postrider.clock.now() < until ? '421 4.3.2 Busy' : taking(Infinity)(open)) }
    },
    charged: [MAILS, 3 * MAILS],
    within: 45 * MINUTE,
  },
  {
    name: 'returns 421 to EHLO in two of every three connections',
    script: () => ({
      answer: (command, connection) =>
        /^EHLO|^HELO/.test(command) && connection % 3 !== 0 ? '421 4.7.0 Too many' : undefined,
    }),
  },
  {
    name: 'supports HELO only',
    script: () => ({ answer: (command) => (command.startsWith('EHLO') ? '502 5.5.1 What?' : undefined) }),
  },
  { name: 'supports no extensions', script: () => ({ keywords: [] }) },
  { name: 'offers STARTTLS with a self-signed certificate', script: () => ({ tls: true }) },
  {
    name: 'offers STARTTLS and rejects it',
    script: () => ({
      tls: true,
      answer: (command) => (command.startsWith('STARTTLS') ? '454 4.7.0 Not now' : undefined),
    }),
    connections: 2 * MOST,
  },
  {
    name: 'closes the connection at the second MAIL of a session',
    script: () => ({ answer: afterMails(1, 'MAIL', 'close') }),
  },
  {
    name: 'closes the connection instead of replying to the data of every fifth email',
    script: () => {
      let dots = 0
      return { final: () => (++dots % 5 === 0 ? 'close' : undefined) }
    },
    charged: [MAILS + 1, 2 * MAILS],
    within: 120 * MINUTE,
  },
  {
    name: 'returns 451 to the data of each email at the first attempt',
    script: () => {
      const known = new Set<string>()
      return {
        final: ({ to }) => {
          if (known.has(to[0]!)) return undefined
          known.add(to[0]!)
          return '451 4.3.0 Try again'
        },
      }
    },
    charged: 2 * MAILS,
    within: 6 * MINUTE,
  },
  {
    name: 'returns 452 to MAIL for five minutes because its disk is full',
    script: () => {
      const until = postrider.clock.now() + 5 * MINUTE
      return {
        answer: (command) =>
          command.startsWith('MAIL') && postrider.clock.now() < until ? '452 4.3.1 Insufficient storage' : undefined,
      }
    },
    charged: [MAILS, 3 * MAILS],
    within: 45 * MINUTE,
  },
  {
    name: 'replies late to the data, and refuses more than five connections (tarpit)',
    script: () => ({
      greeting: (open) => (open > 5 ? '421 4.7.0 Slowly' : taking(5)(open)),
      final: () => new Promise((resolve) => void setImmediate(() => setImmediate(() => resolve('250 2.0.0 At last')))),
    }),
    connections: 5,
  },
]

/** A row of the table in docs/receivers.md: the requirements of the test of a behaviour. */
function rowOf({ charged, connections = MOST, mails = MAILS, name, recipients = 1, within = 0 }: Behaviour): string {
  const [least, most] = Array.isArray(charged) ? charged : [charged ?? mails, charged ?? mails]
  const attempts = least === most ? String(least) : `${least} to ${most}`
  return `| ${name} | ${mails * recipients} | ${attempts} | ${connections} | ${within === 0 ? 'no wait' : `${within / MINUTE} min`} |`
}

test('the table of docs/receivers.md equals the limits tested here', () => {
  const document = readFileSync(new URL('../../docs/receivers.md', import.meta.url), 'utf8')
  for (const behaviour of BEHAVIOURS) assert.ok(document.includes(`\n${rowOf(behaviour)}\n`), rowOf(behaviour))
})

for (const [index, behaviour] of BEHAVIOURS.entries()) {
  const { exchangers, name, recipients = 1, script = () => ({}), within = 0 } = behaviour
  const { connections = MOST, mails = MAILS } = behaviour
  const { charged = mails } = behaviour
  test(`delivers every email to an MX host that ${name}`, async (t) => {
    const domain = `kind-${index}.test`
    receiver(domain)
    if (exchangers) {
      postrider.dns.set(
        domain,
        'MX',
        exchangers.map((record) => `${record}.${domain}`),
      )
      postrider.dns.set(`dead.${domain}`, 'A', ['127.0.0.2'])
    }
    // Connections of the test before are gone.
    exchanger.cut()
    await until(() => exchanger.open === 0)
    peak = 0
    for (const key of Object.keys(exchanger.script)) delete exchanger.script[key as keyof Script]
    const scripted = { greeting: taking(Infinity), ...script() } as Script
    let refusals = 0
    if (scripted.answer) {
      const { answer } = scripted
      scripted.answer = (...heard) => {
        const words = answer(...heard)
        if (words !== undefined) refusals++
        return words
      }
    }
    Object.assign(exchanger.script, scripted)
    const { clock, appliance } = postrider
    const begun = clock.now()
    const copies = Array.from({ length: recipients - 1 }, (_, n) => `copy${n}@${domain}`)
    await Promise.all(
      Array.from({ length: mails }, (_, n) =>
        post({ to: `n${n}@${domain}`, ...(copies.length > 0 ? { cc: copies } : {}) }),
      ),
    )
    const state = raw<{ delivered: number; active: number; charged: number; next: number | null }>(
      `select sum(status = 'delivered') as delivered, sum(status = 'active') as active, sum(attempts) as charged,
         min(case when status = 'queued' then next_attempt_at end) as next from deliveries where lane = ?`,
      [domain],
    )
    await until(() => {
      const { active, delivered, next } = appliance.deps.store.first(state)!
      if (delivered === mails * recipients) return true
      // Email that is not in progress waits for the clock: for its own time, or for its lane's.
      if (within > 0 && active === 0) {
        if (next !== null && next > clock.now()) clock.leap(next - clock.now())
        else clock.advance(within > 30 * MINUTE ? within / 500 : 100)
      }
      return false
    }, `all mails: ${name}`)
    const total = appliance.deps.store.first(state)!.charged
    t.diagnostic(`${mails} mails | ${total} attempts | ${peak} connections | ${(clock.now() - begun) / 1000} s`)
    const [least, most] = typeof charged === 'number' ? [charged, charged] : charged
    assert.ok(total >= least && total <= most, `${total} attempts`)
    assert.ok(!scripted.answer || refusals > 0, 'the exchanger did what the test is about')
    assert.ok(peak <= connections, `${peak} connections`)
    assert.ok(clock.now() - begun <= within, `${clock.now() - begun} ms`)
  })
}

/**
 * How many emails a receiver accepts in some seconds if it accepts `most` per second and there is always more to send.
 */
function takenBy(pace: Pace, most: number, seconds: number, start = 0): { taken: number; refused: number } {
  let [taken, refused, second, inSecond] = [0, 0, -1, 0]
  for (let now = start; now < start + seconds * 1000; now += 10) {
    if (Math.floor(now / 1000) !== second) [second, inSecond] = [Math.floor(now / 1000), 0]
    // Twenty connections, each with an email.
    const going = Math.min(20, pace.capacity(now))
    pace.went(going, now)
    for (let n = 0; n < going; n++) {
      if (inSecond++ < most) {
        taken++
        pace.succeeded(now)
      } else {
        refused++
        pace.refused(now, now)
      }
    }
  }
  return { taken, refused }
}

test('sends nearly as much as a receiver accepts, with few rejections, and more if it accepts more later', () => {
  for (const most of [1, 2, 10, 100]) {
    const pace = new Pace()
    const { refused, taken } = takenBy(pace, most, 125)
    assert.ok(taken > most * 125 * 0.75, `${taken} of ${most * 125}`)
    assert.ok(refused < 20 + taken / 10, `${refused} refused`)
    const later = takenBy(pace, most * 10, 300, 125_000)
    assert.ok(later.taken > most * 10 * 300 * 0.5, `${later.taken} of ${most * 3000}`)
  }
})

test('attempts a receiver that rejects everything once per minute in the end, and forgets this after an hour', () => {
  const pace = new Pace()
  takenBy(pace, 0, 600)
  assert.equal(takenBy(pace, 0, 600, 600_000).refused, 10)
  const { learnedAt } = pace
  assert.equal(pace.capacity(learnedAt + 3_599_999), 1)
  assert.equal(pace.capacity(learnedAt + 3_600_000), Infinity)
})

test('counts replies to simultaneous emails once, and a repeatedly rejected email as an attempt', () => {
  const pace = new Pace()
  for (let n = 0; n < 10; n++) pace.succeeded(1000)
  for (let n = 0; n < 10; n++) pace.refused(1000, 1500 + n)
  assert.equal(pace.perSecond, 5)
  assert.equal(pace.nextAt(), 2700)
  assert.deepEqual(
    Array.from({ length: 10 }, () => pace.spares(7)),
    [true, true, true, true, true, true, true, true, false, false],
  )
  assert.equal(pace.spares(8), true)
})

test('stores learned limits, restores them in the next process, and forgets them after an hour', async () => {
  const exchanger = await startTestExchanger({
    greeting: (open) => (open > 2 ? '421 4.7.0 Too many connections' : WELCOME),
    answer: (command) => (command.includes('slow@') ? '451 4.7.0 Slow down' : undefined),
  })
  const server = await startTestAppliance({
    config: { delivery: { port: exchanger.port }, workers: { count: 2 } },
  })
  const { clock } = server
  await server.activeDomain('here.test')
  const mails = mailsOf(() => server)
  mails.receiver('narrow.test')
  mails.receiver('slow.test')
  mails.receiver('away.test', '127.0.0.2')
  const learned = () => learnedLanes(server.appliance.deps.store, clock.now())
  const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => mails.post({ to: `n${n}@narrow.test` })))
  for (const id of ids) await mails.attempted(id, 1)
  // Connections that wait for more emails count as open. A third one would be turned away.
  exchanger.cut()
  await until(() => exchanger.open === 0, 'the end of all connections')
  await mails.post({ to: 'slow@slow.test' })
  await mails.post({ to: 'a@away.test' })
  const shown = await until(() => {
    clock.advance(500)
    const lanes = learned()
    return lanes.length === 3 ? lanes : undefined
  })
  assert.deepEqual(
    shown.map(({ connections, lane, paused_until, per_second }) => [
      lane,
      connections !== null,
      per_second !== null,
      paused_until !== null,
    ]),
    [
      ['away.test', false, false, true],
      ['narrow.test', true, false, false],
      ['slow.test', false, true, false],
    ],
  )
  assert.ok(shown[1]!.connections! <= 2)
  assert.deepEqual(learnedOf(shown, 'narrow.test'), {
    connections: shown[1]!.connections,
    learned_at: shown[1]!.learned_at,
    per_second: null,
    paused_until: null,
  })
  const after = new LaneSet(new Shaping(), new Ways(parseConfig({})), () => 1)
  after.recall(shown)
  assert.equal(after.of('narrow.test').learned.width.allowed, shown[1]!.connections)
  assert.equal(after.of('slow.test').learned.pace.perSecond, shown[2]!.per_second)
  // A restart tries again at once.
  assert.equal(after.of('away.test').pausedUntil, 0)
  clock.leap(61 * MINUTE)
  assert.deepEqual(learned(), [])
  await server.stop()
  await exchanger.close()
})
