// `postrider agent list` and the reputation of `domain list`, next to a running server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { document } from '../kit/appliance.ts'
import { startBeside } from '../commands/beside.ts'

const { commands, postrider } = await startBeside()

test('lists agents with their pool, pace and figures, and a warned domain', async () => {
  assert.deepEqual(await commands.json('agent', 'list'), [])
  assert.match((await commands.run(['agent', 'list'])).stdout, /There are no agents/)
  const { key } = await postrider.activeDomain('here.test')
  const attributes = { from: 'me@here.test', to: 'to@nowhere.test', subject: 'x', html: 'x', agent_id: 'writer' }
  await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))
  await postrider.appliance.deps.store.write((tx) => {
    tx.run(
      raw('insert into tallies values (1, ?, ?, ?, 7, 2, 1)', [key, 'writer', Math.floor(Date.now() / 3_600_000) - 1]),
    )
    tx.run(raw('insert into domain_reputations values (?, 1)', [key]))
  })
  // A paused agent is refused at once, and sends again when it is resumed.
  const send = async () => {
    const { body, status } = await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))
    return [status, body.errors?.[0].code]
  }
  assert.equal((await commands.json('agent', 'pause', 'writer')).changed, true)
  assert.deepEqual(await send(), [409, 'agent_paused'])
  assert.equal((await commands.json('agent', 'pause', 'writer')).changed, false)
  assert.equal((await commands.json('agent', 'resume', 'writer')).changed, true)
  assert.deepEqual(await send(), [201, undefined])
  assert.match((await commands.run(['agent', 'pause', 'nobody'])).stderr, /There is no agent nobody/)
  const [agent] = await commands.json('agent', 'list')
  const { agent_id, bounces, complaints, deliveries, pace, pool, user } = agent
  assert.deepEqual(
    { agent_id, bounces, complaints, deliveries, pace, pool, user },
    {
      agent_id: 'writer',
      bounces: 2,
      complaints: 1,
      deliveries: 7,
      pace: '2 per second',
      pool: 'probation',
      user: 'ann@owner.test',
    },
  )
  const { stdout } = await commands.run(['agent', 'list'])
  assert.match(stdout, /AGENT\s+POOL\s+PACE/)
  assert.match(stdout, /writer\s+probation/)
  assert.equal((await commands.json('domain', 'list'))[0].reputation, 'warned')
  await commands.misused('agent', 'list', 'more')
})
