// Leftovers of attempts without a known result: those of an ended process, and deferrals of a campaign that are written
// while their lane has no other mail.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR } from '../../src/base/clock.ts'
import { holdLane } from '../../src/delivery/queue/waiting.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger, testExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'
import { startTestDns } from '../kit/zone.ts'
import { mailsOf, MINUTE } from '../mail/mails.ts'

test('the first start after thirty killed processes attempts every claimed email at once, with the default schedule (D186, D204)', async () => {
  const dataDir = temporaryDirectory('interrupted')
  const dns = await startTestDns()
  const clock = new ManualClock()
  const wanted = Array.from({ length: 20 }, (_, n) => `r${n}@there.test`)
  try {
    await using killed = await startTestAppliance({
      dataDir,
      dns,
      clock,
      domains: ['here.test'],
      routes: ['there.test'],
    })
    const { deps } = killed.appliance
    await holdLane(deps, 'there.test', true)
    for (const to of wanted) await mailsOf(() => killed).post({ to })
    await deps.store.write((tx) => {
      tx.run(raw('delete from lane_holds'))
      tx.run(
        raw(`update deliveries set status = 'active', attempts = 30, next_attempt_at = null, leased_until = ?`, [
          clock.now() + HOUR,
        ]),
      )
    })
    await killed.stop()

    const exchanger = testExchanger()
    await using _ = await startTestAppliance({ dataDir, dns, clock, exchanger })
    await until(() => exchanger.heard.length === wanted.length, 'all of them, at the time of the start')
    assert.deepEqual(new Set(exchanger.heard.map(({ to }) => to[0])), new Set(wanted))
  } finally {
    await dns.close()
  }
})

test('a campaign lane that is dropped while its last deferral is written wakes for the retry (D26)', async () => {
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
    clock.leap(MINUTE)
    return exchanger.heard.length > 0 || ++minutes > 200
  })
  assert.deepEqual(
    exchanger.heard.map(({ to }) => to),
    [['reader@there.test']],
  )
})
