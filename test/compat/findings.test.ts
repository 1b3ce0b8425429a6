// doctor and the console name the compatibility APIs that applications use, and what goes wrong there.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, SECOND } from '../../src/base/clock.ts'
import { startTestAppliance, type Answer, type TestAppliance } from '../kit/appliance.ts'
import { until } from '../kit/until.ts'
import { raw } from '../../src/store/query.ts'

async function send(postrider: TestAppliance, more: Record<string, string> = {}): Promise<number> {
  const { status } = await postrider.raw('/v3/here.test/messages', {
    method: 'POST',
    headers: { Authorization: `Basic ${Buffer.from(`api:${postrider.token}`).toString('base64')}` },
    body: new URLSearchParams({ from: 'ann@here.test', to: 'bob@there.test', subject: 'Hi', text: 'Hi', ...more }),
  })
  postrider.clock.advance(SECOND)
  const { store } = postrider.appliance.deps
  await until(() => store.first(raw('select 1 as noted from token_requests where created_at > ?', [0])), 'the note')
  return status
}
const found = async (postrider: TestAppliance): Promise<(readonly [string, string])[]> =>
  (await postrider.appliance.deps.operations.state()).findings
    .filter(({ check }) => check.endsWith(' API'))
    .map(({ check, status }) => [check, status] as const)

for (const [url, status] of [
  ['https://mx.here.test', 'ok'],
  ['http://mx.here.test', 'warn'],
] as const)
  test(`names the API that an application uses, with ${url}`, async () => {
    await using postrider = await startTestAppliance({ config: { http: { public_url: url } }, domains: ['here.test'] })
    assert.deepEqual(await found(postrider), [])
    assert.equal(await send(postrider), 200)
    assert.deepEqual(await found(postrider), [['Mailgun API', status]])
  })

test('names the token whose requests turned on tracking, for a day', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const list = (): Promise<Answer> => postrider.api('GET', '/findings')
  const tracking = async (ask = list) =>
    (await ask()).body.data
      .filter(({ attributes }: { attributes: { check: string } }) => attributes.check === 'tracking')
      .map(({ attributes }: { attributes: { detail: string } }) => attributes.detail)
  assert.equal(await send(postrider), 200)
  assert.deepEqual(await tracking(), [])
  assert.equal(await send(postrider, { 'o:tracking-opens': 'yes' }), 400)
  await until(async () => (await tracking()).length > 0, 'the finding')
  assert.match((await tracking())[0], /^1 request of .+ turned on tracking/)
  assert.deepEqual(await tracking(() => postrider.asOther('GET', '/findings')), [])
  postrider.clock.leap(DAY + SECOND)
  assert.deepEqual(await tracking(), [])
})
