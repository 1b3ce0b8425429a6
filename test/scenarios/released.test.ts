// This version continues with the data of released versions: it sends queued email once and completes a
// running campaign.
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { test } from 'node:test'
import { SECOND } from '../../src/base/clock.ts'
import { faultsOf } from '../../src/archive/integrity.ts'
import { domainByKey } from '../../src/domains/find.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { RELEASED, releasedData } from '../kit/released.ts'
import { until } from '../kit/until.ts'

for (const version of RELEASED)
  test(`opens the data of ${version} and sends its queued email and its campaign once`, async (t) => {
    const { campaign, dataDir, done, inbox, token, waits } = releasedData(version)
    t.after(() => rmSync(dataDir, { recursive: true, force: true }))
    const exchanger = testExchanger()
    await using postrider = await startTestAppliance({ dataDir, exchanger, routes: ['there.test'] })
    const { clock } = postrider
    postrider.publish(domainByKey(postrider.appliance.deps.store, 1)!)
    const show = async (path: string) =>
      (await postrider.raw(`/api/v1${path}`, { headers: { authorization: `Bearer ${token}` } })).body.data
    assert.deepEqual(await faultsOf(postrider.appliance.deps), [])
    assert.equal((await show('/inbound-emails'))[0].attributes.subject, 'Hello')
    assert.equal((await show(`/inboxes/${inbox}`)).attributes.address, 'hello@here.test')
    const statusOf = async (id: string): Promise<string> => (await show(`/outbound-emails/${id}`)).attributes.status
    await until(async () => {
      clock.advance(5 * SECOND)
      const statuses = await Promise.all(waits.map(statusOf))
      return (
        statuses.every((status) => status === 'delivered') &&
        (await show(`/campaigns/${campaign}`)).attributes.status === 'sent'
      )
    }, 'the end of all mail')
    assert.equal(await statusOf(done), 'delivered')
    const to = exchanger.heard.flatMap((heard) => heard.to).toSorted()
    assert.equal(new Set(to).size, to.length, 'nobody is written to twice')
    assert.equal(to.filter((address) => /^reader-\d+@/.test(address)).length, 25, '5 of 30 had it before')
    assert.deepEqual(
      to.filter((address) => !address.startsWith('reader')),
      ['late-one@there.test', 'late-two@there.test'],
    )
    const large = exchanger.heard.find((heard) => heard.to.includes('late-two@there.test'))!
    assert.match(large.message, /(?:attached ){4}/, 'its file of the spool went with it')
    for (const { message } of exchanger.heard) assert.match(message, /^DKIM-Signature: .*d=here\.test;/ms)
    assert.equal((await show(`/campaigns/${campaign}/stats`)).attributes.deliveries, 30)
  })
