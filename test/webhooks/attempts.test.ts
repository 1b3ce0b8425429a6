// Deliveries over time, with a manual clock (specification "Receiver obligations and retries", "Secret rotation",
// "Delivery history and replay"; D52 to D54).
import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import type { ServerResponse } from 'node:http'
import { DAY, HOUR, MINUTE, SECOND } from '../../src/base/clock.ts'
import { addUser } from '../../src/users/users.ts'
import { listNotices } from '../../src/users/notices.ts'
import { startAppliance } from '../../src/server/appliance.ts'
import { silentLog } from '../../src/base/log.ts'
import { createApp } from '../../src/http/server.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { HOST, verify, testReceiver, type Request } from '../kit/receiver.ts'
import { until } from '../kit/until.ts'
import { attempted, deliveryOf, happen, makeHook, rest, type Hook } from './hooks.ts'

/** "Delay after the failure of attempts 1 to 9". */
const DELAYS = [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR]

const receiver = testReceiver()
const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    receiver,
    // No endpoint here runs out of time.
    config: { webhooks: { timeout: '1h' } },
    routes: ['owner.test'],
  }),
)
const domain = ofFile(() => postrider.activeDomain('here.test'))

beforeEach(() => {
  receiver.answer = 200
})

async function hookFor(...events: string[]): Promise<Hook> {
  const hook = await makeHook(postrider, receiver, domain, events)
  return hook
}

/** Answers by path; every other path gets 200. */
function answering(path: string, answer: number | ((request: Request, response: ServerResponse) => void)): void {
  receiver.answer = (request, response) => {
    if (request.path !== path) response.writeHead(200).end()
    else if (typeof answer === 'number') response.writeHead(answer).end(`status ${answer}`)
    else answer(request, response)
  }
}

const timeOf = (request: Request): number => Number(request.headers['webhook-timestamp']) * SECOND
const idOf = (request: Request): string => request.headers['webhook-id']!
const signatures = (request: Request): string[] => request.headers['webhook-signature']!.split(' ')

/** Turns the clock to just before `at`, checks that no request is sent, then turns it to `at`. */
async function turnTo(hook: Hook, at: number): Promise<void> {
  const before = hook.requests().length
  postrider.clock.leap(at - postrider.clock.now() - 1)
  await rest(postrider)
  assert.equal(hook.requests().length, before, 'nothing before it is due')
  postrider.clock.leap(1)
}

test('makes ten attempts with the same bytes and id at nine delays with 10 percent jitter, then fails', async () => {
  const hook = await hookFor('email.clicked')
  answering(hook.path, 500)
  await happen(postrider, domain, 'email.clicked')
  await hook.arrived(1)
  const [{ id }] = (await hook.deliveries()) as [{ id: string }]
  for (let attempt = 1; attempt <= 10; attempt++) {
    const shown = await attempted(postrider, id, attempt)
    const { outcome } = shown
    const entry = shown.attempt_log.at(-1)
    assert.equal(shown.attempts, attempt)
    assert.equal(shown.response_status, 500)
    assert.equal(shown.response_body, 'status 500')
    assert.match(shown.reason, /500/)
    assert.deepEqual([entry.number, entry.response_status, entry.response_body], [attempt, 500, 'status 500'])
    assert.equal(Date.parse(entry.at), postrider.clock.now())
    assert.ok(Number.isInteger(entry.duration) && entry.duration >= 0)
    if (attempt === 10) {
      assert.equal(outcome, 'failed')
      assert.equal(shown.next_attempt_at, null)
      break
    }
    assert.equal(outcome, 'pending')
    const next = Date.parse(shown.next_attempt_at)
    const delay = next - postrider.clock.now()
    const expected = DELAYS[attempt - 1]!
    assert.ok(delay >= expected * 0.9 && delay <= expected * 1.1, `delay ${attempt}: ${delay} for ${expected}`)
    await turnTo(hook, next)
    await hook.arrived(attempt + 1)
  }
  const all = hook.requests()
  assert.equal(all.length, 10)
  assert.deepEqual(new Set(all.map(({ body }) => body)).size, 1)
  assert.deepEqual(new Set(all.map(idOf)).size, 1)
  const attempts = (await deliveryOf(postrider, id)).attempt_log
  for (const [index, request] of all.entries()) {
    const at = Date.parse(attempts[index].at)
    assert.equal(timeOf(request), Math.floor(at / SECOND) * SECOND, 'the timestamp is the attempt’s')
    verify(request, hook.secret, at)
    // The body's time stays the event's.
    assert.equal(JSON.parse(request.body).timestamp, JSON.parse(all[0]!.body).timestamp)
  }
  assert.equal((await deliveryOf(postrider, id)).payload, all[0]!.body)
  postrider.clock.leap(30 * DAY)
  await rest(postrider)
  assert.equal(hook.requests().length, 10, 'no eleventh')
  // Its ten failures were ten in a row.
  const shown = await hook.show()
  assert.deepEqual([shown.status, shown.disabled_reason], ['disabled', 'failures'])
})

test('jitter makes delays longer and shorter', async () => {
  const hooks = await Promise.all(Array.from({ length: 12 }, () => hookFor('email.complained')))
  receiver.answer = 500
  await happen(postrider, domain, 'email.complained')
  const delays: number[] = []
  for (const hook of hooks) {
    await hook.arrived(1)
    const [{ id }] = (await hook.deliveries()) as [{ id: string }]
    const { next_attempt_at } = await attempted(postrider, id, 1)
    delays.push(Date.parse(next_attempt_at) - postrider.clock.now())
  }
  assert.ok(new Set(delays).size > 3, String(delays))
  assert.ok(delays.some((delay) => delay < 5000) && delays.some((delay) => delay > 5000), String(delays))
  for (const { id } of hooks) await postrider.api('DELETE', `/webhooks/${id}`)
})

test('a request verifies with the library for five minutes, but not after a change of one byte', async () => {
  const hook = await hookFor('email.opened')
  await happen(postrider, domain, 'email.opened')
  const [request] = (await hook.arrived(1)) as [Request]
  const now = timeOf(request)
  verify(request, hook.secret, now)
  verify(request, hook.secret, now + 299_000)
  assert.throws(() => verify(request, hook.secret, now + 301_000), /too old/)
  assert.throws(() => verify({ ...request, body: `${request.body} ` }, hook.secret, now), /matching/)
  assert.throws(() => verify(request, `whsec_${Buffer.alloc(32).toString('base64')}`, now), /matching/)
  assert.equal(request.headers['content-type'], 'application/json')
  assert.ok(!idOf(request).includes('.') && /^\d+$/.test(request.headers['webhook-timestamp']!))
  assert.equal(signatures(request).length, 1)
})

test('signs with both secrets for 24 hours after a rotation, and a second rotation keeps the newest and the previous', async () => {
  const hook = await hookFor('email.unsubscribed')
  const first = hook.secret
  const send = async (): Promise<Request> => {
    const before = hook.requests().length
    await happen(postrider, domain, 'email.unsubscribed')
    return (await hook.arrived(before + 1))[before]!
  }
  const takes = (request: Request, secret: string): boolean => {
    try {
      verify(request, secret, timeOf(request))
      return true
    } catch {
      return false
    }
  }
  const second: string = (await hook.change({ rotate_secret: true })).secret
  const rotated = postrider.clock.now()
  let request = await send()
  assert.equal(signatures(request).length, 2)
  assert.ok(signatures(request).every((signature) => /^v1,[A-Za-z0-9+/]{43}=$/.test(signature)))
  assert.ok(takes(request, first) && takes(request, second))
  postrider.clock.leap(DAY - 2 * SECOND)
  request = await send()
  assert.ok(takes(request, first) && takes(request, second), 'just within 24 hours')
  postrider.clock.leap(rotated + DAY - postrider.clock.now())
  request = await send()
  assert.deepEqual([signatures(request).length, takes(request, first), takes(request, second)], [1, false, true])
  // Twice within the window.
  const third: string = (await hook.change({ rotate_secret: true })).secret
  postrider.clock.leap(HOUR)
  const fourth: string = (await hook.change({ rotate_secret: true })).secret
  request = await send()
  assert.equal(signatures(request).length, 2)
  assert.deepEqual(
    [first, second, third, fourth].map((secret) => takes(request, secret)),
    [false, false, true, true],
  )
  postrider.clock.leap(DAY - HOUR + SECOND)
  assert.equal(signatures(await send()).length, 2, 'the window counts from the last rotation')
  postrider.clock.leap(HOUR)
  assert.equal(signatures(await send()).length, 1)
})

test('signs a retry with the secrets that are valid at that time', async () => {
  const hook = await hookFor('email.rejected')
  answering(hook.path, 500)
  await happen(postrider, domain, 'email.rejected')
  await hook.arrived(1)
  const [{ id }] = (await hook.deliveries()) as [{ id: string }]
  const { next_attempt_at } = await attempted(postrider, id, 1)
  const { secret } = await hook.change({ rotate_secret: true })
  receiver.answer = 200
  await turnTo(hook, Date.parse(next_attempt_at))
  const [one, two] = (await hook.arrived(2)) as [Request, Request]
  assert.equal(one.body, two.body)
  assert.equal(idOf(one), idOf(two))
  verify(two, secret, timeOf(two))
  verify(two, hook.secret, timeOf(two))
  assert.throws(() => verify(one, secret, timeOf(one)))
})

describe('responses', () => {
  for (const status of [200, 201, 202, 204, 299])
    test(`${status} is a success`, async () => {
      const hook = await hookFor('email.opened')
      answering(hook.path, status)
      await happen(postrider, domain, 'email.opened')
      await hook.arrived(1)
      const [{ id }] = (await hook.deliveries()) as [{ id: string }]
      const shown = await attempted(postrider, id, 1)
      assert.deepEqual([shown.outcome, shown.response_status, shown.reason], ['delivered', status, null])
      assert.equal(shown.next_attempt_at, null)
      await postrider.api('DELETE', `/webhooks/${hook.id}`)
    })

  for (const status of [300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 409, 422, 429, 500, 502, 503])
    test(`${status} is a failed attempt`, async () => {
      const hook = await hookFor('email.opened')
      answering(hook.path, (_, response) => response.writeHead(status, { location: `${receiver.url}/followed` }).end())
      await happen(postrider, domain, 'email.opened')
      await hook.arrived(1)
      const [{ id }] = (await hook.deliveries()) as [{ id: string }]
      const shown = await attempted(postrider, id, 1)
      assert.deepEqual([shown.outcome, shown.response_status], ['pending', status])
      assert.match(shown.reason, new RegExp(String(status)))
      assert.ok(!receiver.requests.some(({ path }) => path === '/followed'))
      await postrider.api('DELETE', `/webhooks/${hook.id}`)
    })

  test('obeys valid Retry-After values of 429 in seconds or as a date, and ignores them for 503', async () => {
    const httpDate = (milliseconds: number): string => new Date(postrider.clock.now() + milliseconds).toUTCString()
    const cases: [number, string, number, number][] = [
      [429, '120', 2 * MINUTE, 2 * MINUTE],
      [429, ' 7200 ', 2 * HOUR, 2 * HOUR],
      // HTTP dates have no fraction of a second.
      [429, httpDate(HOUR), HOUR - SECOND, HOUR],
      [429, '86400', DAY, DAY],
      [429, '86401', DAY, DAY],
      [429, '999999999', DAY, DAY],
      [429, '99999999999999999999', DAY, DAY],
      [429, httpDate(365 * DAY), DAY, DAY],
      [429, '0', 0, 5.5 * SECOND],
      [429, httpDate(-HOUR), 0, 5.5 * SECOND],
      // Neither form: the schedule holds.
      [429, 'soon', 4.5 * SECOND, 5.5 * SECOND],
      [429, '-5', 4.5 * SECOND, 5.5 * SECOND],
      [429, '1.5', 4.5 * SECOND, 5.5 * SECOND],
      [429, '1e3', 4.5 * SECOND, 5.5 * SECOND],
      [429, '', 4.5 * SECOND, 5.5 * SECOND],
      [503, '120', 4.5 * SECOND, 5.5 * SECOND],
      [500, httpDate(HOUR), 4.5 * SECOND, 5.5 * SECOND],
    ]
    const wrong: string[] = []
    for (const [status, header, least, most] of cases) {
      const hook = await hookFor('email.opened')
      answering(hook.path, (_, response) => response.writeHead(status, { 'retry-after': header }).end())
      const at = postrider.clock.now()
      await happen(postrider, domain, 'email.opened')
      await hook.arrived(1)
      const [{ id }] = (await hook.deliveries()) as [{ id: string }]
      // A retry that is due at once can be in flight: it has no next attempt and is not logged yet.
      const retriedAt = await until(async () => {
        const { attempt_log, next_attempt_at } = await deliveryOf(postrider, id)
        return attempt_log[1]?.at ?? (attempt_log.length ? next_attempt_at : undefined) ?? undefined
      }, `the retry of ${id}`)
      await postrider.api('DELETE', `/webhooks/${hook.id}`)
      const delay = Date.parse(retriedAt) - at
      if (!(delay >= least && delay <= most)) wrong.push(`${status} Retry-After ${JSON.stringify(header)}: ${delay} ms`)
    }
    assert.deepEqual(wrong, [])
  })

  test('a 429 counts as an attempt', async () => {
    const hook = await hookFor('email.opened')
    answering(hook.path, (_, response) => response.writeHead(429, { 'retry-after': '60' }).end())
    await happen(postrider, domain, 'email.opened')
    await hook.arrived(1)
    const [{ id }] = (await hook.deliveries()) as [{ id: string }]
    await attempted(postrider, id, 1)
    for (let attempt = 2; attempt <= 10; attempt++) {
      postrider.clock.leap(400 * SECOND)
      await attempted(postrider, id, attempt)
    }
    assert.equal((await deliveryOf(postrider, id)).outcome, 'failed')
    assert.equal((await hook.show()).status, 'disabled')
  })

  test('410 disables the webhook at once, and holds queued and new events', async () => {
    const hook = await hookFor('email.opened')
    answering(hook.path, 410)
    await happen(postrider, domain, 'email.opened')
    await hook.arrived(1)
    await until(async () => (await hook.show()).status === 'disabled', 'disabled')
    const shown = await hook.show()
    assert.deepEqual([shown.disabled_reason, shown.active], ['gone', false])
    receiver.answer = 200
    await happen(postrider, domain, 'email.opened', {}, 2)
    await until(async () => (await hook.deliveries()).length === 3, 'events on record')
    postrider.clock.leap(2 * DAY)
    await rest(postrider)
    assert.equal(hook.requests().length, 1)
    const outcomes = (await hook.deliveries()).map(({ attributes }) => attributes.outcome)
    assert.deepEqual(outcomes.slice(1), ['held', 'held'])
    assert.ok(outcomes[0] === 'held' || outcomes[0] === 'failed', outcomes[0])
    // After it is enabled, it receives new events. Held events stay held until they are replayed.
    const enabled = await hook.change({ active: true })
    assert.deepEqual([enabled.status, enabled.disabled_reason, enabled.consecutive_failures], ['active', null, 0])
    await rest(postrider)
    assert.equal(hook.requests().length, 1)
    await happen(postrider, domain, 'email.opened')
    await hook.arrived(2)
    const [, held] = await hook.deliveries()
    const replay = await postrider.api('POST', `/deliveries/${held.id}/replay`)
    assert.equal(replay.status, 202)
    await hook.arrived(3)
    assert.equal(idOf(hook.requests()[2]!), replay.body.data.id)
    assert.equal((await deliveryOf(postrider, held.id)).outcome, 'held')
    // And on a replay.
    answering(hook.path, 410)
    await postrider.api('POST', `/deliveries/${held.id}/replay`)
    await until(async () => (await hook.show()).status === 'disabled', 'disabled by a replay')
    await postrider.api('DELETE', `/webhooks/${hook.id}`)
  })
})

describe('failing endpoints', () => {
  test('the third failure in a row limits a webhook to one delivery at a time, the tenth disables it and notifies the owner', async () => {
    const hook = await hookFor('campaign.sent')
    answering(hook.path, 503)
    const bystander = await hookFor('campaign.sent')
    // One after the other, so that the counter is in the test's hand.
    for (let n = 1; n <= 3; n++) {
      await happen(postrider, domain, 'campaign.sent', { n })
      await hook.arrived(n)
      await until(async () => (await hook.show()).consecutive_failures === n, `${n} failures`)
    }
    // A crowd waits now, and one request at a time goes out.
    let under = 0
    let most = 0
    let answer: (() => void) | undefined
    answering(hook.path, (_, response) => {
      under++
      most = Math.max(most, under)
      answer = () => {
        under--
        response.writeHead(503).end()
      }
    })
    await happen(postrider, domain, 'campaign.sent', {}, 30)
    await bystander.arrived(33)
    assert.equal(hook.requests().length, 3, 'held')
    let at = postrider.clock.now()
    for (const [index, seconds] of [5, 10, 20, 40, 80, 160, 320].entries()) {
      const least = at + seconds * SECOND * 0.9
      const latest = at + seconds * SECOND * 1.1
      postrider.clock.leap(least - 1 - postrider.clock.now())
      await rest(postrider)
      assert.equal(hook.requests().length, 3 + index, `no probe before ${seconds} s`)
      postrider.clock.leap(latest - postrider.clock.now())
      await hook.arrived(4 + index)
      await rest(postrider)
      assert.equal(hook.requests().length, 4 + index, 'one probe')
      at = postrider.clock.now()
      answer!()
      await until(async () => (await hook.show()).consecutive_failures === 4 + index, `${4 + index} failures`)
    }
    assert.equal(most, 1)
    const shown = await hook.show()
    assert.deepEqual([shown.status, shown.disabled_reason, shown.consecutive_failures], ['disabled', 'failures', 10])
    postrider.clock.leap(3 * DAY)
    await rest(postrider)
    assert.equal(hook.requests().length, 10)
    const all = await hook.deliveries()
    assert.ok(
      all.every(({ attributes }) => attributes.outcome === 'held'),
      'what waited is held',
    )
    await happen(postrider, domain, 'campaign.sent')
    await until(async () => (await hook.deliveries()).length === 34, 'recorded')
    assert.equal((await hook.deliveries()).at(-1).attributes.outcome, 'held')

    // The owner is notified by email, and in the list of notifications.
    const told = await until(
      () =>
        listNotices(postrider.appliance.deps.store).find(
          ({ mailed, subject }) => mailed === 1 && subject.includes(hook.path),
        ),
      'notice',
    )
    assert.equal(told.email, 'ann@owner.test')
    assert.ok(told.text.includes(hook.id) && told.text.includes(hook.path))
    const mail = await until(() => exchanger.heard.find(({ message }) => message.includes(hook.path)), 'mail')
    assert.deepEqual(mail.to, ['ann@owner.test'])
    assert.match(mail.message, /^From: Postrider <postrider@mx\.postrider\.test>\r$/m)

    const enabled = await hook.change({ active: true })
    assert.deepEqual(
      [enabled.status, enabled.active, enabled.consecutive_failures, enabled.disabled_reason],
      ['active', true, 0, null],
    )
    receiver.answer = 200
    await happen(postrider, domain, 'campaign.sent')
    await hook.arrived(11)
    await rest(postrider)
    assert.equal(hook.requests().length, 11, 'what was held is not sent by surprise')
    await postrider.api('DELETE', `/webhooks/${bystander.id}`)
    await postrider.api('DELETE', `/webhooks/${hook.id}`)
  })

  test('one success resets the failures and releases the queued deliveries', async () => {
    const hook = await hookFor('campaign.paused')
    answering(hook.path, 500)
    for (let n = 1; n <= 4; n++) {
      await happen(postrider, domain, 'campaign.paused', { n })
      if (n === 4) postrider.clock.leap(5.5 * SECOND)
      await until(async () => (await hook.show()).consecutive_failures >= n, `${n} failures`)
    }
    receiver.answer = 200
    await happen(postrider, domain, 'campaign.paused', {}, 20)
    postrider.clock.leap(11 * SECOND)
    await until(async () => (await hook.show()).consecutive_failures === 0, 'reset')
    postrider.clock.leap(6 * MINUTE)
    await until(async () => (await hook.deliveries('&filter[outcome]=delivered')).length === 24, 'everything delivered')
    const ids = hook.requests().map(idOf)
    assert.equal(new Set(ids).size, 24)
    assert.equal((await hook.show()).status, 'active')
    await postrider.api('DELETE', `/webhooks/${hook.id}`)
  })

  test('concurrent failures during a short outage do not disable a webhook', async () => {
    const hook = await hookFor('campaign.failed')
    const waiting: ServerResponse[] = []
    answering(hook.path, (_, response) => void waiting.push(response))
    await happen(postrider, domain, 'campaign.failed', {}, 50)
    await hook.arrived(1)
    await rest(postrider)
    const together = waiting.length
    receiver.answer = 200
    for (const response of waiting) response.writeHead(502).end()
    await until(async () => {
      const tried = (await hook.deliveries()).filter(({ attributes }) => attributes.response_status === 502)
      return tried.length >= together
    }, 'the failures on record')
    assert.equal((await hook.show()).status, 'active', `${together} failed together`)
    for (let round = 0; round < 8; round++) {
      postrider.clock.leap(6 * SECOND)
      await rest(postrider)
    }
    await until(async () => (await hook.deliveries('&filter[outcome]=delivered')).length === 50, 'all delivered')
    await postrider.api('DELETE', `/webhooks/${hook.id}`)
  })
})

describe('actions of the owner', () => {
  test('holds events while paused, and sends only later events after the pause', async () => {
    const hook = await hookFor('domain.reputation_warning')
    answering(hook.path, 500)
    await happen(postrider, domain, 'domain.reputation_warning')
    await hook.arrived(1)
    const [first] = await hook.deliveries()
    await attempted(postrider, first.id, 1)
    assert.equal((await hook.change({ active: false })).status, 'paused')
    receiver.answer = 200
    await happen(postrider, domain, 'domain.reputation_warning')
    await until(async () => (await hook.deliveries()).length === 2, 'on record')
    postrider.clock.leap(DAY)
    await rest(postrider)
    assert.equal(hook.requests().length, 1)
    const outcomes = (await hook.deliveries()).map(({ attributes }) => attributes.outcome)
    assert.deepEqual(outcomes, ['held', 'held'])
    assert.equal((await hook.change({ active: true })).status, 'active')
    await happen(postrider, domain, 'domain.reputation_warning')
    await hook.arrived(2)
    await rest(postrider)
    assert.equal(hook.requests().length, 2)
    await postrider.api('DELETE', `/webhooks/${hook.id}`)
  })

  test('a request in progress during a pause counts if it succeeds, and is held if it fails', async () => {
    for (const [status, outcome] of [
      [200, 'delivered'],
      [500, 'held'],
    ] as const) {
      const hook = await hookFor('domain.reputation_warning')
      let finish: (() => void) | undefined
      answering(hook.path, (_, response) => void (finish = () => response.writeHead(status).end()))
      await happen(postrider, domain, 'domain.reputation_warning')
      await until(() => finish, 'under way')
      await hook.change({ active: false })
      finish!()
      const [{ id }] = (await hook.deliveries()) as [{ id: string }]
      assert.equal((await attempted(postrider, id, 1)).outcome, outcome)
      await postrider.api('DELETE', `/webhooks/${hook.id}`)
    }
  })

  test('removing a webhook stops its retries and records no new events, and past deliveries stay readable', async () => {
    const hook = await hookFor('email.opened')
    await happen(postrider, domain, 'email.opened')
    await hook.arrived(1)
    const [done] = await hook.deliveries()
    await attempted(postrider, done.id, 1)
    answering(hook.path, 500)
    await happen(postrider, domain, 'email.opened')
    await hook.arrived(2)
    const [, queued] = await hook.deliveries()
    await attempted(postrider, queued.id, 1)
    assert.equal((await postrider.api('DELETE', `/webhooks/${hook.id}`)).status, 204)
    receiver.answer = 200
    await happen(postrider, domain, 'email.opened')
    postrider.clock.leap(3 * DAY)
    await rest(postrider)
    assert.equal(hook.requests().length, 2)
    const shown = await deliveryOf(postrider, done.id)
    assert.deepEqual([shown.outcome, shown.response_status, shown.attempt_log.length], ['delivered', 200, 1])
    assert.equal(shown.payload, hook.requests()[0]!.body)
    assert.notEqual((await deliveryOf(postrider, queued.id)).outcome, 'pending')
    const included = await postrider.api('GET', `/deliveries/${done.id}?include=webhook`)
    assert.equal(included.status, 200, JSON.stringify(included.body))
    const replay = await postrider.api('POST', `/deliveries/${done.id}/replay`)
    assert.equal(replay.status, 404, 'there is no secret to sign with')
  })

  test('replays a delivered and a failed delivery with a new id and the same payload, and keeps the original', async () => {
    const hook = await hookFor('campaign.sending')
    await happen(postrider, domain, 'campaign.sending')
    await hook.arrived(1)
    const [{ id: delivered }] = (await hook.deliveries()) as [{ id: string }]
    await attempted(postrider, delivered, 1)
    answering(hook.path, 500)
    await happen(postrider, domain, 'campaign.sending')
    await hook.arrived(2)
    const { id: failed } = (await hook.deliveries())[1]
    for (let attempt = 1; attempt <= 10; attempt++) {
      const shown = await attempted(postrider, failed, attempt)
      // A success in between keeps the endpoint enabled.
      if (attempt % 2 === 0) {
        receiver.answer = 200
        await postrider.api('POST', `/deliveries/${delivered}/replay`)
        await until(async () => {
          postrider.clock.leap(SECOND)
          return (await hook.show()).consecutive_failures === 0
        }, 'a success')
        answering(hook.path, 500)
      }
      if (attempt < 10) postrider.clock.leap(Math.max(0, Date.parse(shown.next_attempt_at) - postrider.clock.now()))
    }
    assert.equal((await deliveryOf(postrider, failed)).outcome, 'failed')
    receiver.answer = 200
    for (const original of [delivered, failed]) {
      const before = await deliveryOf(postrider, original)
      const count = hook.requests().length
      postrider.clock.leap(HOUR)
      // No body, no Content-Type (D5).
      const replay = await postrider.api('POST', `/deliveries/${original}/replay`)
      assert.equal(replay.status, 202, JSON.stringify(replay.body))
      const { attributes, id, type } = replay.body.data
      assert.equal(type, 'outbound-webhooks')
      assert.notEqual(id, original)
      assert.deepEqual([attributes.event, attributes.replay_of], ['campaign.sending', original])
      const request = (await hook.arrived(count + 1))[count]!
      assert.equal(idOf(request), id)
      assert.equal(request.body, before.payload)
      assert.equal(timeOf(request), Math.floor(postrider.clock.now() / SECOND) * SECOND)
      verify(request, hook.secret, postrider.clock.now())
      assert.equal((await attempted(postrider, id, 1)).outcome, 'delivered')
      assert.deepEqual(await deliveryOf(postrider, original), before)
    }
    await postrider.api('DELETE', `/webhooks/${hook.id}`)
  })

  test('lists deliveries with filters, sorting and inclusion, and returns payload and log only for a single one', async () => {
    const hook = await hookFor('email.opened', 'email.clicked')
    await happen(postrider, domain, 'email.opened')
    await happen(postrider, domain, 'email.clicked')
    await hook.arrived(2)
    await until(async () => (await hook.deliveries('&filter[outcome]=delivered')).length === 2, 'delivered')
    const get = (query: string) => postrider.api('GET', `/webhooks/${hook.id}/deliveries${query}`)
    const all = await get('?include=webhook.domain&page[size]=1')
    assert.equal(all.status, 200, JSON.stringify(all.body))
    assert.equal(all.body.meta.has_more, true)
    assert.deepEqual(all.body.included.map(({ type }: { type: string }) => type).toSorted(), ['domains', 'webhooks'])
    assert.ok(!JSON.stringify(all.body).includes('whsec_'))
    const { attributes, relationships } = all.body.data[0]
    assert.deepEqual(relationships.webhook.data, { type: 'webhooks', id: hook.id })
    for (const name of ['event', 'outcome', 'attempts', 'response_status', 'response_body', 'reason'])
      assert.ok(name in attributes, name)
    assert.equal((await get('?filter[event]=email.clicked')).body.data.length, 1)
    assert.equal((await get('?filter[outcome]=failed')).body.data.length, 0)
    assert.equal((await get('?filter[colour]=red')).status, 400)
    assert.equal((await get('?sort=payload')).status, 400)
    assert.equal((await get('?include=webhook.domain.user')).status, 400)
    assert.equal((await postrider.api('GET', `/deliveries/${all.body.data[0].id}?filter[event]=x`)).status, 400)
    await postrider.api('DELETE', `/webhooks/${hook.id}`)
  })
})

test('a clock jump causes one attempt per delivery, even if several were due', async () => {
  const hook = await hookFor('email.delayed')
  answering(hook.path, 500)
  await happen(postrider, domain, 'email.delayed')
  await hook.arrived(1)
  const [{ id }] = (await hook.deliveries()) as [{ id: string }]
  await attempted(postrider, id, 1)
  postrider.clock.leap(7 * DAY)
  await attempted(postrider, id, 2)
  await rest(postrider)
  assert.equal(hook.requests().length, 2)
  const { next_attempt_at } = await deliveryOf(postrider, id)
  assert.ok(Date.parse(next_attempt_at) >= postrider.clock.now() + 4.5 * MINUTE)
  // After a step backwards, the delivery waits for its time.
  receiver.answer = 200
  postrider.clock.leap(-HOUR)
  await rest(postrider)
  assert.equal(hook.requests().length, 2)
  postrider.clock.leap(HOUR + 6 * MINUTE)
  assert.equal((await attempted(postrider, id, 3)).outcome, 'delivered')
  await postrider.api('DELETE', `/webhooks/${hook.id}`)
})

test('one hanging endpoint among 20 does not delay the others', async () => {
  const hooks = await Promise.all(Array.from({ length: 20 }, () => hookFor('domain.suspended')))
  const [slow, ...others] = hooks as [Hook, ...Hook[]]
  const open: ServerResponse[] = []
  answering(slow.path, (_, response) => void open.push(response))
  await happen(postrider, domain, 'domain.suspended', {}, 40)
  await slow.arrived(1)
  for (const hook of others) await hook.arrived(40)
  assert.ok(
    open.every(({ destroyed }) => !destroyed),
    'the slow one holds its requests still',
  )
  assert.ok(open.length >= 1 && open.length < 40, `${open.length} under way at the slow one`)
  for (const hook of hooks) await postrider.api('DELETE', `/webhooks/${hook.id}`)
  for (const response of open) response.writeHead(200).end()
  assert.equal(slow.requests().length, open.length)
})

test('twenty-five hanging endpoints of one user do not keep another user’s waiting', async () => {
  const user = await addUser(postrider.appliance.deps, { email: 'cat@crowd.test' })
  const crowded = await postrider.activeDomain('crowd.test', user)
  const token = await postrider.tokenFor(user, ['webhooks:read', 'webhooks:write'])
  const api: TestAppliance['api'] = (method, path, body, headers) =>
    postrider.api(method, path, body, { ...headers, authorization: `Bearer ${token}` })
  const hanging: Hook[] = []
  for (let n = 0; n < 25; n++) hanging.push(await makeHook({ api }, receiver, crowded))
  const hook = await hookFor('email.opened')
  const open: ServerResponse[] = []
  receiver.answer = (request, response) => {
    if (request.path === hook.path) response.writeHead(200).end()
    else open.push(response)
  }
  try {
    await happen(postrider, crowded, 'email.opened', {}, 20)
    await until(() => hanging.every((one) => one.requests().length > 0) || open.length >= 200, 'all hang')
    await rest(postrider)
    await happen(postrider, domain, 'email.opened')
    await until(() => hook.requests().length === 1, 'the other user’s event')
  } finally {
    for (const one of hanging) await api('DELETE', `/webhooks/${one.id}`)
    receiver.answer = 200
    for (const response of open) response.writeHead(200).end()
    await postrider.api('DELETE', `/webhooks/${hook.id}`)
  }
})

test('delivers once on schedule after three days of outage with restarts', async () => {
  const dataDir = temporaryDirectory('webhooks')
  const clock = new ManualClock()
  const config = { webhooks: { ca_file: receiver.caFile } }
  const down = await startTestAppliance({ dataDir, clock, config })
  const { dns, token } = down
  let { appliance } = down
  try {
    dns.set(HOST, 'A', ['127.0.0.1'])
    const here = await down.activeDomain('here.test')
    const hook = await makeHook(down, receiver, here, ['email.opened'])
    // The same API after a restart: the appliance is another, the data directory is not.
    const api: TestAppliance['api'] = async (method, path, body) => {
      const response = await createApp(appliance.deps).request(`/api/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${token}` },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return { status: response.status, headers: response.headers, body: await response.json() }
    }
    const now = { api }
    const began = clock.now()
    receiver.answer = (_, response) => {
      // Between the ninth and the tenth attempt, for any jitter.
      if (clock.now() - began > 2.5 * DAY) response.writeHead(200).end()
      else response.destroy()
    }
    await happen(down, here, 'email.opened')
    await hook.arrived(1)
    const [{ id }] = (await hook.deliveries()) as [{ id: string }]
    let shown = await attempted(now, id, 1)
    while (shown.outcome === 'pending') {
      const { attempts } = shown
      await appliance.stop()
      const due = Date.parse(shown.next_attempt_at)
      // Some restarts come before it is due, others find it overdue.
      if (attempts % 2 === 0) clock.leap(due - clock.now() - 1)
      appliance = await startAppliance({ config: down.config, clock, log: silentLog, resolver: dns.resolver })
      await rest({ appliance })
      assert.equal(hook.requests().length, attempts)
      clock.leap(due - clock.now())
      shown = await attempted(now, id, attempts + 1)
      const last = shown.attempt_log.at(-1)
      assert.equal(Date.parse(last.at), due)
      if (shown.outcome === 'pending') assert.match(last.reason, /reset|closed|hang/)
    }
    assert.equal(shown.outcome, 'delivered')
    // 5 s + 5 min + … + 24 h: the tenth attempt, after 75.6 hours give or take the jitter.
    const total = DELAYS.reduce((sum, delay) => sum + delay, 0)
    assert.equal(shown.attempts, 10)
    assert.ok(Math.abs(clock.now() - began - total) <= total * 0.1)
    assert.equal(new Set(hook.requests().map(idOf)).size, 1)
    for (const [index, request] of hook.requests().entries())
      verify(request, hook.secret, Date.parse(shown.attempt_log[index].at))
    clock.leap(5 * DAY)
    await rest({ appliance })
    assert.equal(hook.requests().length, 10)
  } finally {
    await appliance.stop()
    await dns.close()
  }
})
