// Where a source begins: a new installation, the upgrade of an established sender, and an address that is new.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { raw } from '../../src/store/query.ts'
import { beginSources, SYSTEM_SOURCE } from '../../src/warmup/begin.ts'
import { ladderOf, TOTAL } from '../../src/warmup/ladder.ts'
import { shapingRules } from '../../src/smtp/shaping-file.ts'
import { desk } from './desk.ts'

const SOURCE = '192.0.2.1'
let at: ReturnType<typeof desk>
beforeEach(() => {
  at = desk({ delivery: { source: [SOURCE] } })
})
afterEach(() => at.end())

/** Mail of the time before warm-up: recipients a day, by receiver, so many days ago. */
const mail = (receiver: string, recipients: number, ago: number): Promise<unknown> =>
  at.store.write((tx) => {
    tx.run(
      raw(
        `insert or ignore into users (key, id, email, name, plan, subscription_state, created_at, updated_at)
         values (1, 'u', 'u@u.test', 'u', 'unlimited', 'active', 1, 1)`,
      ),
    )
    tx.run(
      raw(
        `insert into receiver_tallies (user_key, receiver, hour, delivered, deferred, refused, within_5s, within_1m, within_10m, within_1h)
         values (1, ?, ?, ?, 99, 1, 0, 0, 0, 0)`,
        [receiver, Math.floor((at.clock.now() - ago * DAY) / HOUR), recipients - 1],
      ),
    )
  })

const pairOf = (receiver: string, source = SOURCE) => {
  const row = at.row({ source, receiver })
  return row && [row.status, row.step]
}
const bulk = (receiver: string, source = SOURCE): number => at.room(true, { source, receiver })

describe('a new installation', () => {
  test('begins at its first start, with an address of its own or the one that the system chooses (DV14)', async () => {
    await beginSources(at)
    assert.equal(bulk('there.test'), 16)
    assert.equal(bulk('Google'), 40)
    at.config.delivery.source = []
    await beginSources(at)
    assert.equal(bulk('there.test', SYSTEM_SOURCE), 16)
  })
})

describe('the upgrade', () => {
  test('of an established sender slows no mail: pairs, its total, and receivers that are new to it (DV14)', async () => {
    for (let ago = 0; ago < 14; ago++) {
      await mail('there.test', 300 + ago, ago)
      await mail('Google', 30_000, ago)
      await mail('huge.test', 50_000, ago)
      await mail('small.test', 3, ago)
    }
    await beginSources(at)
    assert.deepEqual(pairOf('there.test'), ['warming', 5])
    for (const [receiver, most] of [
      ['there.test', 313],
      ['Google', 30_000],
      ['huge.test', 50_000],
      ['small.test', 3],
    ] as const)
      assert.ok(bulk(receiver) >= most, receiver)
    assert.deepEqual(pairOf('huge.test'), ['warm', 9])
    // A receiver without history begins at the fourth step, the total is warm.
    await at.take(1, true, { source: SOURCE, receiver: 'new.test' })
    assert.deepEqual(pairOf('new.test'), ['warming', 3])
    assert.equal(pairOf(TOTAL)?.[0], 'warm')
  })

  test('of one that sent on 13 days keeps the step above its largest day alone (DV14)', async () => {
    for (let ago = 0; ago < 13; ago++) await mail('there.test', 100 + ago, ago)
    await mail('old.test', 5000, 30)
    await beginSources(at)
    assert.deepEqual(pairOf('there.test'), ['warming', 3])
    assert.equal(pairOf('old.test'), undefined)
    assert.deepEqual(pairOf(TOTAL), ['warming', 0])
    await at.take(1, true, { source: SOURCE, receiver: 'new.test' })
    assert.deepEqual(pairOf('new.test'), ['warming', 0])
  })

  test('knows receivers by the exchangers that answered (DV14)', async () => {
    await mail('custom.test', 500, 1)
    await at.store.write((tx) => {
      tx.run(raw('pragma defer_foreign_keys = on'))
      tx.run(
        raw(
          `insert into domains (id, user_key, name, purpose, region, mail_from_prefix, tls_policy, open_tracking_enabled,
             click_tracking_enabled, tracking_redirect_mode, status, status_at, poll_from, created_at, updated_at)
           values ('d', 1, 'd.test', 'both', 'default', 'bounce', 'Optional', 0, 0, 'shared', 'pending', 1, 1, 1, 1)`,
        ),
      )
      tx.run(
        raw(
          `insert into outbound_emails (id, user_key, domain_key, "from", "to", subject, opens_tracked, clicks_tracked, message_id,
             status, queued_at, created_at, updated_at)
           values ('e', 1, 1, 'a@d.test', 'b@custom.test', 's', 0, 0, '<e@d.test>', 'delivered', 1, 1, 1)`,
        ),
      )
      tx.run(
        raw(
          `insert into deliveries (email_key, domain_key, role, address, lane, status, attempts, expires_at, remote_mta, updated_at)
           values (1, 1, 'to', 'b@custom.test', 'custom.test', 'delivered', 1, 9, 'mx1.mailhoster.test', ?)`,
          [at.clock.now()],
        ),
      )
    })
    await beginSources(at)
    assert.deepEqual(pairOf('mailhoster.test'), ['warming', 5])
    assert.equal(pairOf('custom.test'), undefined)
  })
})

describe('later', () => {
  test('an address that is new, such as that of a restored server, begins at the first step (DV16)', async () => {
    for (let ago = 0; ago < 20; ago++) await mail('there.test', 1000, ago)
    await beginSources(at)
    at.config.delivery.source = ['192.0.2.9']
    await beginSources(at)
    const { steps } = ladderOf(shapingRules(), 'there.test')
    assert.equal(bulk('there.test', '192.0.2.9'), steps[0]! * 0.8)
    assert.ok(bulk('there.test') >= 1000)
  })

  test('an address that left the configuration keeps its history for 60 days (DV16)', async () => {
    await beginSources(at)
    await at.take(10, true, { source: SOURCE, receiver: 'there.test' })
    at.config.delivery.source = []
    at.clock.leap(59 * DAY)
    await beginSources(at)
    assert.ok(pairOf('there.test'))
    at.clock.leap(2 * DAY)
    await beginSources(at)
    assert.equal(pairOf('there.test'), undefined)
    at.config.delivery.source = [SOURCE]
    await beginSources(at)
    assert.equal(bulk('there.test'), 16)
  })
})
