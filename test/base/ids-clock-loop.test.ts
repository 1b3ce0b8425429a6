import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { addMonths, DAY, HOUR, iso, MINUTE, SECOND, systemClock } from '../../src/base/clock.ts'
import { base32, fromBase32, newId, newSecret } from '../../src/base/ids.ts'
import { silentLog, type Log } from '../../src/base/log.ts'
import { Loop } from '../../src/base/loop.ts'
import { retryDelay } from '../../src/base/retry.ts'
import { parseDuration, parseSize } from '../../src/base/config-values.ts'
import { ManualClock } from '../kit/clock.ts'

const TAIL = (1n << 62n) - 1n

test('ids are UUIDv7 (RFC 9562 §5.7) and contain their time', () => {
  const now = Date.UTC(2026, 0, 15, 12)
  for (let i = 0; i < 2000; i++) {
    const id = newId(now + i)
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    assert.equal(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16), now + i)
  }
})

test('ids sort by their times, and are distinct within a millisecond', () => {
  const times = [0, 1, 255, 256, 65_536, 2 ** 32, Date.UTC(2026, 0, 1), Date.UTC(2026, 0, 1) + 1, 2 ** 47]
  const ids = times.map((time) => newId(time))
  assert.deepEqual(ids.toSorted(), ids)
  const many = Array.from({ length: 20_000 }, () => newId(1))
  assert.equal(new Set(many).size, many.length)
  // Each of the last 62 bits is sometimes set and sometimes not.
  const tails = many.slice(0, 200).map((id) => BigInt(`0x${id.replaceAll('-', '')}`) & TAIL)
  assert.equal(
    tails.reduce((either, each) => either | each),
    TAIL,
  )
  assert.equal(
    tails.reduce((both, each) => both & each),
    0n,
  )
})

test('secrets have their prefix and 43 base62 digits, and never repeat', () => {
  const secrets = Array.from({ length: 500 }, () => newSecret('pr_'))
  for (const secret of secrets) assert.match(secret, /^pr_[0-9A-Za-z]{43}$/)
  assert.equal(new Set(secrets).size, secrets.length)
})

test('base32 matches the vectors of RFC 4648 §10, lower case without padding', () => {
  const vectors = {
    '': '',
    f: 'my',
    fo: 'mzxq',
    foo: 'mzxw6',
    foob: 'mzxw6yq',
    fooba: 'mzxw6ytb',
    foobar: 'mzxw6ytboi',
  }
  for (const [plain, coded] of Object.entries(vectors)) {
    assert.equal(base32(Buffer.from(plain)), coded)
    assert.equal(Buffer.from(fromBase32(coded)!).toString(), plain)
    assert.equal(Buffer.from(fromBase32(coded.toUpperCase())!).toString(), plain, 'receivers may fold the case')
  }
})

test('base32 of any length decodes to the same bytes', () => {
  for (let length = 0; length <= 64; length++) {
    const bytes = Uint8Array.from({ length }, (_, index) => (index * 151 + length * 31) & 255)
    assert.deepEqual(fromBase32(base32(bytes)), bytes)
  }
  assert.deepEqual(fromBase32(base32(new Uint8Array(8).fill(255))), new Uint8Array(8).fill(255))
  for (const foreign of ['0', '1', '8', 'a-b', 'ä', 'a b', 'aa=']) assert.equal(fromBase32(foreign), undefined, foreign)
})

test('clamps calendar months to the last day', () => {
  const moved = (from: string, months: number) => iso(addMonths(Date.parse(from), months))
  assert.equal(moved('2026-01-31T10:00:00.001Z', 1), '2026-02-28T10:00:00.001Z')
  assert.equal(moved('2024-01-31T10:00:00.000Z', 1), '2024-02-29T10:00:00.000Z')
  assert.equal(moved('2000-01-31T00:00:00.000Z', 1), '2000-02-29T00:00:00.000Z')
  assert.equal(moved('2100-01-31T00:00:00.000Z', 1), '2100-02-28T00:00:00.000Z')
  assert.equal(moved('2026-03-31T00:00:00.000Z', 1), '2026-04-30T00:00:00.000Z')
  assert.equal(moved('2026-02-28T00:00:00.000Z', 1), '2026-03-28T00:00:00.000Z')
  assert.equal(moved('2026-12-31T23:59:59.999Z', 6), '2027-06-30T23:59:59.999Z')
  assert.equal(moved('2024-02-29T00:00:00.000Z', 12), '2025-02-28T00:00:00.000Z')
  assert.equal(moved('2026-03-31T00:00:00.000Z', -1), '2026-02-28T00:00:00.000Z')
  assert.equal(moved('2026-05-15T00:00:00.000Z', 0), '2026-05-15T00:00:00.000Z')
})

test('the system clock wakes once, not before its time, and not after a cancellation', async () => {
  const start = Date.now()
  let taken = false
  const cancel = systemClock.wake(start + 1, () => (taken = true))
  cancel()
  // Timers and the wall clock differ slightly. A timer that fires a fraction early must not matter.
  const early = await Promise.all(
    Array.from(
      { length: 200 },
      (_, index) =>
        new Promise<boolean>((resolve) => {
          const time = start + 2 + (index % 40)
          systemClock.wake(time, () => resolve(systemClock.now() < time))
        }),
    ),
  )
  assert.ok(!early.includes(true), `${early.filter(Boolean).length} of ${early.length} were woken too early`)
  assert.equal(taken, false)
  // Far beyond the limit of a timer (2^31 ms), where an ordinary one would fire at once.
  let atOnce = false
  const far = systemClock.wake(Date.now() + 60 * DAY, () => (atOnce = true))
  await new Promise<void>((resolve) => void systemClock.wake(Date.now() + 5, resolve))
  far()
  assert.equal(atOnce, false)
})

test('a leap of the manual clock wakes every due sleeper once, at the end', () => {
  const clock = new ManualClock(0)
  const woken: [string, number][] = []
  const every = (): void => {
    woken.push(['every', clock.now()])
    clock.wake(clock.now() + SECOND, every)
  }
  clock.wake(SECOND, every)
  clock.wake(DAY, () => woken.push(['day', clock.now()]))
  clock.wake(DAY + 1, () => woken.push(['later', clock.now()]))
  clock.leap(DAY)
  assert.deepEqual(woken, [
    ['every', DAY],
    ['day', DAY],
  ])
})

const aLoop = (run: (now: number) => Promise<number | null> | number | null, log: Log = silentLog) => {
  const clock = new ManualClock(0)
  return { clock, loop: new Loop({ name: 'test', clock, log, run }) }
}
const settled = async (): Promise<void> => {
  for (let i = 0; i < 3; i++) await turn()
}

test('a loop runs at its start and when the next work is due, and not in between', async () => {
  const runs: number[] = []
  const { clock, loop } = aLoop((now) => {
    runs.push(now)
    return runs.length < 3 ? now + MINUTE : null
  })
  loop.ring()
  await settled()
  assert.deepEqual(runs, [], 'not before it is started')
  loop.start()
  await settled()
  assert.deepEqual(runs, [0])
  clock.advance(MINUTE - 1)
  await settled()
  assert.deepEqual(runs, [0])
  clock.advance(1)
  await settled()
  clock.advance(MINUTE)
  await settled()
  assert.deepEqual(runs, [0, MINUTE, 2 * MINUTE])
  assert.equal(clock.nextAlarm, null, 'nothing due: it sleeps until the bell')
  clock.advance(DAY)
  loop.ring()
  await settled()
  assert.deepEqual(runs.slice(3), [2 * MINUTE + DAY])
  await loop.stop()
})

test('many rings in one turn cause one run, and rings during a run one more, never two at a time', async () => {
  let running = 0
  let most = 0
  let runs = 0
  let release: () => void = () => {}
  const { loop } = aLoop(async () => {
    runs++
    most = Math.max(most, ++running)
    await new Promise<void>((resolve) => (release = resolve))
    running--
    return null
  })
  loop.start()
  for (let i = 0; i < 100; i++) loop.ring()
  await settled()
  assert.equal(runs, 1)
  for (let i = 0; i < 100; i++) loop.ring()
  await settled()
  assert.equal(runs, 1)
  release()
  await settled()
  assert.equal(runs, 2)
  release()
  await settled()
  assert.equal(runs, 2)
  assert.equal(most, 1)
  await loop.stop()
})

test('only the newest time of the next run counts', async () => {
  const due = [HOUR, MINUTE, null]
  const runs: number[] = []
  const { clock, loop } = aLoop((now) => {
    runs.push(now)
    return due.shift() ?? null
  })
  loop.start()
  await settled()
  assert.equal(clock.nextAlarm, HOUR)
  loop.ring()
  await settled()
  assert.equal(clock.nextAlarm, MINUTE)
  clock.advance(MINUTE)
  await settled()
  assert.equal(clock.nextAlarm, null)
  assert.deepEqual(runs, [0, 0, MINUTE])
  await loop.stop()
})

test('logs a fault and runs again after 1 s, doubling to a minute, and from 1 s again after a success', async () => {
  const faults: string[] = []
  let broken = true
  const runs: number[] = []
  const { clock, loop } = aLoop(
    (now) => {
      runs.push(now)
      if (broken) throw new Error('no')
      return null
    },
    { ...silentLog, fault: (where) => (faults.push(where), 'id') },
  )
  loop.start()
  await settled()
  const pauses: number[] = []
  for (let i = 0; i < 9; i++) {
    pauses.push(clock.nextAlarm! - clock.now())
    clock.advance(clock.nextAlarm! - clock.now())
    await settled()
  }
  assert.deepEqual(
    pauses,
    [1, 2, 4, 8, 16, 32, 60, 60, 60].map((seconds) => seconds * SECOND),
  )
  assert.equal(faults.length, 10)
  assert.match(faults[0]!, /test/)
  broken = false
  clock.advance(MINUTE)
  await settled()
  assert.equal(clock.nextAlarm, null)
  broken = true
  loop.ring()
  await settled()
  assert.equal(clock.nextAlarm! - clock.now(), SECOND)
  await loop.stop()
  assert.equal(clock.nextAlarm, null, 'nothing is left behind')
})

test('a rejected promise is a fault, too', async () => {
  const faults: unknown[] = []
  const { clock, loop } = aLoop(() => Promise.reject(new Error('no')), {
    ...silentLog,
    fault: (_, thrown) => (faults.push(thrown), 'id'),
  })
  loop.start()
  await settled()
  assert.equal(faults.length, 1)
  assert.equal(clock.nextAlarm, SECOND)
  await loop.stop()
})

test('stop waits for the run in progress, and prevents later runs', async () => {
  let runs = 0
  let ended = false
  let release: () => void = () => {}
  const { clock, loop } = aLoop(async (now) => {
    runs++
    await new Promise<void>((resolve) => (release = resolve))
    ended = true
    return now + SECOND
  })
  loop.start()
  await settled()
  loop.ring()
  let stopped = false
  const stopping = loop.stop().then(() => (stopped = true))
  await settled()
  assert.equal(stopped, false)
  release()
  await stopping
  assert.equal(ended, true)
  loop.ring()
  clock.advance(DAY)
  await settled()
  assert.equal(runs, 1)
  assert.equal(clock.nextAlarm, null)
})

test('retries use the delays in order, repeat the last one, and vary each by at most 10 percent', () => {
  const schedule = [5 * MINUTE, 15 * MINUTE, 6 * HOUR]
  const base = [5 * MINUTE, 15 * MINUTE, 6 * HOUR, 6 * HOUR, 6 * HOUR]
  for (const [index, delay] of base.entries()) {
    const at = (random: number) => retryDelay(schedule, index + 1, () => random)
    assert.equal(at(0), 0.9 * delay)
    assert.equal(at(0.5), delay)
    assert.ok(at(1 - Number.EPSILON) <= 1.1 * delay && at(0.999) > 1.09 * delay)
  }
  const seen = Array.from({ length: 500 }, () => retryDelay(schedule, 1))
  assert.ok(seen.every((delay) => delay >= 4.5 * MINUTE && delay <= 5.5 * MINUTE))
  assert.ok(new Set(seen).size > 100, 'what failed together does not come back together')
})

test('reads durations with units', () => {
  const good = {
    '250ms': 250,
    '5s': 5000,
    '5m': 5 * MINUTE,
    '2h': 2 * HOUR,
    '5d': 5 * DAY,
    '0': 0,
    '0s': 0,
    ' 1m ': MINUTE,
  }
  for (const [text, value] of Object.entries(good)) assert.equal(parseDuration(text), value, text)
  for (const text of ['', '5', 'm', '-5m', '1.5h', '5 m', '5M', '5min', '1h30m', '1w', '1e3s', '00x', '5m\n5m'])
    assert.equal(parseDuration(text), undefined, text)
})

test('reads sizes with units', () => {
  const good = {
    '0': 0,
    '512': 512,
    '1B': 1,
    '64KB': 65_536,
    '40MB': 40 * 1024 ** 2,
    '1GB': 1024 ** 3,
    '40 mb': 40 * 1024 ** 2,
  }
  for (const [text, value] of Object.entries(good)) assert.equal(parseSize(text), value, text)
  for (const text of ['', 'MB', '-1', '1.5MB', '1TB', '1K', '1MiB', '1e3', '40MB40MB'])
    assert.equal(parseSize(text), undefined, text)
})
