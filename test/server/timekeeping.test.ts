// A wrong clock: a jump of the date loses no data, and queued email moves with the date (D120).
import assert from 'node:assert/strict'
import { utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { DAY, HOUR, MINUTE, SECOND } from '../../src/base/clock.ts'
import { readSign } from '../../src/base/doubt.ts'
import { parseConfig } from '../../src/base/config.ts'
import { dateFinding } from '../../src/checks/machine.ts'
import { raw } from '../../src/store/query.ts'
import { tidy } from '../../src/server/tidy.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'

interface Waiting {
  status: string
  next_attempt_at: number | null
  expires_at: number
}

const waiting = (postrider: TestAppliance): Waiting =>
  postrider.appliance.deps.store.first(raw<Waiting>('select status, next_attempt_at, expires_at from deliveries'))!

// It defers every mail.
const exchanger = await startTestExchanger({
  answer: (command) => (command.startsWith('MAIL') ? '451 4.3.0 later' : undefined),
})
after(() => exchanger.close())

const started = (dataDir: string, clock: ManualClock): Promise<TestAppliance> =>
  startTestAppliance({
    dataDir,
    clock,
    config: { delivery: { routes: [{ domains: ['*'], host: '127.0.0.1', port: exchanger.port, tls: 'none' }] } },
  })

/** A server with a deferred email, because its MX host accepts no email at present. */
async function withDeferred(dataDir: string, clock: ManualClock): Promise<TestAppliance> {
  const postrider = await started(dataDir, clock)
  const domain = await postrider.activeDomain('here.test')
  const attributes = { from: `a@${domain.name}`, to: 'ann@there.test', subject: 'Hello', html: '<p>Hello</p>' }
  try {
    const made = await postrider.api('POST', '/outbound-emails', { data: { type: 'outbound-emails', attributes } })
    assert.equal(made.status, 201, JSON.stringify(made.body))
    await until(() => (waiting(postrider)?.next_attempt_at ?? 0) > clock.now(), 'a deferred mail')
    return postrider
  } catch (thrown) {
    await postrider.stop()
    throw thrown
  }
}

async function inFolder(run: (dataDir: string) => Promise<void>): Promise<void> {
  const dataDir = temporaryDirectory('time')
  await run(dataDir)
}

const health = async (postrider: TestAppliance): Promise<{ status: string; reasons?: string[] }> =>
  (await postrider.raw('/health')).body

test('a start a year ahead expires no email and no data, and is reported in /health and doctor (D120)', () =>
  inFolder(async (dataDir) => {
    const first = await withDeferred(dataDir, new ManualClock())
    const { now } = { now: first.clock.now() }
    await first.stop()
    const clock = new ManualClock(now + 365 * DAY)
    const ahead = await started(dataDir, clock)
    try {
      await until(() => (waiting(ahead).next_attempt_at ?? 0) > clock.now(), 'the mail to be tried again')
      assert.equal(waiting(ahead).status, 'queued')
      const { reasons, status } = await health(ahead)
      assert.equal(status, 'degraded')
      assert.match(reasons!.join(), /The clock is 365 days ahead of the last time the server ran/)
      const config = parseConfig({ hostname: 'mx.here.test', data_dir: dataDir })
      assert.equal(dateFinding(config, clock.now()).severity, 'warn')
      await tidy(ahead.appliance.deps, { keys: undefined as never, doubtful: true })
      const { bodies } = ahead.appliance.deps.store.first(
        raw<{ bodies: number }>('select count(*) as bodies from outbound_bodies'),
      )!
      assert.equal(bodies, 1)
    } finally {
      await ahead.stop()
    }
  }))

test('the doubt continues after a restart, and ends after a day (D120)', () =>
  inFolder(async (dataDir) => {
    const first = await startTestAppliance({ dataDir, clock: new ManualClock() })
    const now = first.clock.now()
    await first.stop()
    for (const [days, expected] of [
      [10, 'degraded'],
      [10.5, 'degraded'],
      [11.2, 'ok'],
    ] as const) {
      const again = await startTestAppliance({ dataDir, clock: new ManualClock(now + days * DAY) })
      assert.equal((await health(again)).status, expected, `${days} days`)
      await again.stop()
    }
  }))

test('trusts a date at once that a time server set after the last recorded time (D120)', () =>
  inFolder(async (dataDir) => {
    const first = await startTestAppliance({ dataDir, clock: new ManualClock() })
    const now = first.clock.now()
    await first.stop()
    const marker = join(dataDir, 'synchronized')
    writeFileSync(marker, '')
    utimesSync(marker, (now + 10 * DAY - MINUTE) / SECOND, (now + 10 * DAY - MINUTE) / SECOND)
    await using again = await startTestAppliance({
      dataDir,
      clock: new ManualClock(now + 10 * DAY),
      timeMarker: marker,
    })
    assert.equal((await health(again)).status, 'ok')
  }))

test('attempts email that was deferred 20 days ahead within its usual wait once the date is right (D120)', () =>
  inFolder(async (dataDir) => {
    const right = new ManualClock()
    const ahead = await withDeferred(dataDir, new ManualClock(right.now() + 20 * DAY))
    await ahead.stop()
    const again = await started(dataDir, right)
    try {
      const { expires_at, next_attempt_at } = waiting(again)
      assert.ok(next_attempt_at! - right.now() <= HOUR, `${(next_attempt_at! - right.now()) / DAY} days`)
      assert.ok(expires_at - right.now() <= again.config.delivery.lifetime)
      assert.equal((await health(again)).status, 'ok')
    } finally {
      await again.stop()
    }
  }))

test('moves the times of queued email if the clock is set back while the server runs (D120)', () =>
  inFolder(async (dataDir) => {
    const clock = new ManualClock()
    const right = clock.now()
    clock.set(right + 20 * DAY)
    const postrider = await withDeferred(dataDir, clock)
    try {
      clock.set(right)
      clock.advance(SECOND)
      await until(() => (waiting(postrider).next_attempt_at ?? Infinity) - clock.now() <= HOUR, 'the mail brought back')
      clock.advance(HOUR)
      const tries = raw<{ attempts: number }>('select attempts from deliveries')
      await until(() => postrider.appliance.deps.store.first(tries)!.attempts > 1, 'the next attempt')
    } finally {
      await postrider.stop()
    }
  }))

test('expires no email if the clock jumps ahead while the server runs, and doubts the date (D120)', () =>
  inFolder(async (dataDir) => {
    const clock = new ManualClock()
    const postrider = await withDeferred(dataDir, clock)
    try {
      const before = waiting(postrider).expires_at
      clock.set(clock.now() + 4 * DAY)
      clock.advance(SECOND)
      await until(() => waiting(postrider).expires_at > before, 'the longer lifetime')
      assert.equal(waiting(postrider).expires_at, before + 4 * DAY + SECOND)
      await until(async () => (await health(postrider)).status === 'degraded', 'the doubt')
      assert.notEqual(readSign(dataDir)!.doubted, null)
    } finally {
      await postrider.stop()
    }
  }))

/** The elapsed time of a real clock has fractions of a millisecond. */
class FractionalClock extends ManualClock {
  #fraction = 0

  override elapsed(): number {
    this.#fraction += 0.3
    return super.elapsed() + this.#fraction
  }
}

test('a clock that was set back by a fraction of a millisecond brings deferred email back (D120)', () =>
  inFolder(async (dataDir) => {
    const clock = new FractionalClock()
    const postrider = await withDeferred(dataDir, clock)
    try {
      const before = waiting(postrider)
      clock.set(clock.now() - HOUR)
      await until(
        () => (clock.advance(SECOND), waiting(postrider).expires_at < before.expires_at),
        'the email to be brought back',
      )
      assert.deepEqual(await health(postrider), { status: 'ok' })
    } finally {
      await postrider.stop()
    }
  }))
