// `postrider segment` and `contacts export --segment`, next to a running server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'

const exchanger = testExchanger({
  answer: (line) => (/^RCPT.*<bad/.test(line) ? '550 5.1.1 No such user' : undefined),
})
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
const kit = campaignKit(() => postrider)

const add = async (audience: string, name: string, rules: object[]): Promise<string> => {
  const { body, status } = await postrider.api('POST', `/audiences/${audience}/segments`, {
    data: { type: 'segments', attributes: { name, rules } },
  })
  assert.equal(status, 201, JSON.stringify(body))
  return body.data.id
}

test('commands list, count and export segments by the results of campaign emails (AU62, AU63)', async () => {
  const { commands } = postrider
  const domain = await postrider.activeDomain('here.test')
  const tracked = { data: { type: 'domains', id: domain.id, attributes: { open_tracking_enabled: true } } }
  assert.equal((await postrider.api('PATCH', `/domains/${domain.id}`, tracked)).status, 200)
  const audience = await kit.audience(domain, 'Readers')
  await kit.fill(audience, ['ann@there.test', 'bad@there.test'])
  assert.equal(await kit.send(await kit.draft(audience)), 'sent')
  // Who was added later got no email, and did not fail to open one.
  await kit.fill(audience, ['new@there.test'])
  const unread = await add(audience, 'Unread', [{ event: 'opened', op: 'did_not' }])
  await add(audience, 'Bounced', [{ event: 'bounced', op: 'did' }])
  await add(audience, 'Not reached', [{ event: 'delivered', op: 'did_not' }])

  const listed = await commands.json<Record<string, unknown>[]>('segment', 'list', 'Readers')
  assert.deepEqual(
    listed.map(({ name, rules }) => [name, rules]),
    [
      ['Bounced', [{ event: 'bounced', op: 'did' }]],
      ['Not reached', [{ event: 'delivered', op: 'did_not' }]],
      ['Unread', [{ event: 'opened', op: 'did_not' }]],
    ],
  )
  assert.match((await commands.run(['segment', 'list', 'Readers'])).stdout, /^ID +NAME +CONDITIONS +CREATED\n/)
  const count = (name: string) => commands.json('segment', 'count', 'Readers', name)
  assert.deepEqual(await count('Unread'), { count: 1, matching: 1 })
  assert.deepEqual(await count(unread), { count: 1, matching: 1 })
  // A contact that bounced matches, but would not receive a campaign.
  assert.deepEqual(await count('Bounced'), { count: 0, matching: 1 })
  const { stdout } = await commands.run(['segment', 'count', 'Readers', 'Bounced'])
  assert.equal(stdout, '1 contact matches, 0 of them would receive a campaign now.\n')
  const exported = async (name: string): Promise<string[]> =>
    (await commands.run(['contacts', 'export', 'Readers', '--segment', name])).stdout.match(/\w+@there\.test/g) ?? []
  assert.deepEqual(await exported('Unread'), ['ann@there.test'])
  assert.deepEqual(await exported('Bounced'), ['bad@there.test'])
  assert.deepEqual(await exported('Not reached'), ['bad@there.test', 'new@there.test'])
  assert.match(await commands.fails('segment', 'count', 'Readers', 'None'), /has no segment "None".*such as "Bounced"/)
  assert.match(await commands.fails('segment', 'list', 'Nobody'), /There is no audience "Nobody"/)
})
