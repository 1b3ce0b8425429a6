// What is left of attempts that nobody saw the end of: those of a process that ended, and deferrals of a campaign that
// are written while their lane has nothing else.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR } from '../../src/base/clock.ts'
import { releaseAll } from '../../src/delivery/queue/claim.ts'
import { holdLane } from '../../src/delivery/queue/holds.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { startTestExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'
import { mailsOf, MINUTE } from '../mail/mails.ts'

test('an attempt that ended with its process is made again at once; after ten of them by the schedule, until the lifetime ends (D186, D26)', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'], routes: ['there.test'] })
  const { clock } = postrider
  const mails = mailsOf(() => postrider)
  const { config, store } = postrider.appliance.deps
  await holdLane(postrider.appliance.deps, 'there.test', true)
  const id = await mails.post({ to: 'a@there.test' })
  /** The wait (ms) after the end of a process that had made so many attempts; `ended` of all had a result. */
  const waitAfter = async (attempts: number, ended = 0): Promise<number | undefined> => {
    await store.write((tx) => {
      tx.run(raw('delete from attempts'))
      for (let number = 1; number <= ended; number++)
        tx.run(
          raw(
            `insert into attempts (delivery_key, number, at, outcome) select key, ?, ?, 'deferred' from deliveries where true`,
            [number, clock.now()],
          ),
        )
      tx.run(
        raw(`update deliveries set status = 'active', attempts = ?, next_attempt_at = null, leased_until = ?`, [
          attempts,
          clock.now() + HOUR,
        ]),
      )
    })
    assert.equal(await releaseAll({ config, store }, clock.now()), 1)
    const rows = store.all(
      raw<{ next: number; leased_until: null }>(
        `select next_attempt_at as next, leased_until from deliveries where status = 'queued'`,
      ),
    )
    for (const { leased_until } of rows) assert.equal(leased_until, null)
    return rows[0] && rows[0].next - clock.now()
  }
  const about = (wait: number | undefined, minutes: number): void =>
    assert.ok(Math.abs((wait ?? 0) - minutes * MINUTE) <= minutes * MINUTE * 0.1, `${wait} ms`)
  assert.equal(await waitAfter(1), 0)
  assert.equal(await waitAfter(10), 0)
  assert.equal(await waitAfter(13, 3), 0)
  about(await waitAfter(11), 5)
  about(await waitAfter(12), 15)
  about(await waitAfter(13, 2), 30)
  await store.write((tx) => tx.run(raw('update deliveries set expires_at = ?', [clock.now() + MINUTE])))
  assert.equal(await waitAfter(11), undefined)
  await mails.become(id, 'failed')
})

test('a lane of a campaign that is forgotten while its last deferral is written wakes for the retry (D26)', async () => {
  let deferred = 0
  await using exchanger = await startTestExchanger({
    answer: (command) => (command.startsWith('RCPT') && deferred++ === 0 ? '450 4.2.0 Greylisted' : undefined),
  })
  await using postrider = await startTestAppliance({
    config: { delivery: { port: exchanger.port } },
    routes: ['there.test'],
  })
  const { clock } = postrider
  const { bells, store } = postrider.appliance.deps
  const kit = campaignKit(() => postrider)
  const audience = await kit.audience(await postrider.activeDomain('here.test'))
  await kit.fill(audience, ['reader@there.test'])
  await kit.patch(await kit.draft(audience), { status: 'scheduled' })
  await until(() => {
    // Mail for other domains wakes the engine all the time.
    bells.deliveries('other.test')
    return store.first(raw(`select 1 from attempts`))
  }, 'the deferral')
  let minutes = 0
  await until(() => {
    clock.advance(MINUTE)
    return exchanger.heard.length > 0 || ++minutes > 200
  })
  assert.deepEqual(
    exchanger.heard.map(({ to }) => to),
    [['reader@there.test']],
  )
})
