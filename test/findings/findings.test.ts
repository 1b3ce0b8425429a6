// Every surface displays the same findings: API, console, metrics.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MINUTE } from '../../src/base/clock.ts'
import type { Finder, Finding } from '../../src/parts/findings/finding.ts'
import { fail, ok, warn } from '../../src/parts/findings/finding.ts'
import { FindingsRegister } from '../../src/parts/findings/register.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'

test('lists the problems of an account with severity, fix and page, and none of another account', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const { store } = postrider.appliance.deps
  const list = async () =>
    (await postrider.api('GET', '/findings')).body.data.map(
      ({ attributes: { check, href, status } }: { attributes: Record<string, string> }) => [check, status, href],
    )
  assert.deepEqual(await list(), [])
  const late = await postrider.activeDomain('late.test')
  await store.write((tx) => {
    tx.run(raw(`update domains set status = 'suspended' where id = ?`, [late.id]))
    tx.run(
      raw(
        `insert into tallies (domain_key, agent_id, hour, user_key, deliveries, bounces, complaints) values (?, '', ?, ?, 97, 3, 0)`,
        [late.key, Math.floor(postrider.clock.now() / 3_600_000), postrider.user.key],
      ),
    )
  })
  assert.deepEqual(await list(), [
    ['domain', 'fail', '/domains/late.test'],
    ['bounce rate', 'warn', '/receivers'],
  ])
  assert.deepEqual((await postrider.asOther('GET', '/findings')).body.data, [])
})

test('the finding of a reserved or unqualified hostname names the fault, not only the name', async () => {
  const found = async (hostname: string) => {
    await using postrider = await startTestAppliance({ config: { hostname } })
    return postrider.appliance.deps.operations.state().then(({ findings }) => findings[0]?.detail)
  }
  assert.match(
    (await found('mx.here.example'))!,
    /"mx\.here\.example" ends in "\.example", which does not exist in public DNS/,
  )
  assert.match((await found('mx'))!, /"mx" is not fully qualified/)
})

test('/metrics counts the problems of the page Server by check and severity', async () => {
  await using postrider = await startTestAppliance({ clock: new ManualClock() })
  const { findings } = await postrider.appliance.deps.operations.state()
  const metrics = await (await fetch(`${postrider.url}/metrics`)).text()
  for (const { check, status } of findings.filter((each) => each.status !== 'ok'))
    if (check !== 'DANE' && check !== 'SPF of HELO')
      assert.ok(metrics.includes(`postrider_findings{check="${check}",severity="${status}"} 1`), check)
})

test('reports a failure after it has lasted, with the effect of its finder, until it ends', async () => {
  const clock = new ManualClock()
  await using postrider = await startTestAppliance({ clock })
  let found: Finding[] = [fail('disk', '1 MB free', 'Free some space.')]
  const finder: Finder = { effect: 'It is full.', alert: { subject: 'disk', lasts: 5 * MINUTE }, find: () => found }
  const register = new FindingsRegister([finder], { ...postrider.appliance.deps, running: postrider.appliance.deps })
  const begun = clock.now()
  const lasting = () => register.lasting().map(({ effect, since }) => [effect, since])
  assert.deepEqual(lasting(), [])
  clock.leap(5 * MINUTE)
  assert.deepEqual(lasting(), [['It is full.', begun]])
  // A warning causes no email, and a new failure counts from its own start.
  found = [warn('disk', '1 GB free', 'Free some space.')]
  clock.leap(MINUTE)
  assert.deepEqual(lasting(), [])
  found = [fail('disk', '1 MB free', 'Free some space.')]
  clock.leap(MINUTE)
  assert.deepEqual(lasting(), [])
  found = [ok('disk', '9 GB free')]
  assert.deepEqual(register.now(), found)
})
