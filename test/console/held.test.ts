// The queue's page: mail that a paused campaign holds, and what lanes learned.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { Commands } from '../commands/command.ts'
import { campaignKit } from '../kit/campaign.ts'
import { Guest } from '../kit/guest.ts'
import { givePassword } from '../kit/person.ts'
import { until } from '../kit/until.ts'

const PASSWORD = 'a long enough password'

test('mail that a paused campaign holds says so, and is not released but by its campaign', async (t) => {
  const postrider = await startTestAppliance()
  t.after(() => postrider.stop())
  const domain = await postrider.activeDomain('here.test')
  await givePassword(postrider, postrider.user.email, PASSWORD)
  const kit = campaignKit(() => postrider)
  const audience = await kit.audience(domain)
  await kit.fill(audience, ['reader@held.test'])
  const campaign = await kit.draft(audience)
  const { store } = postrider.appliance.deps
  const count = (status: string): number =>
    store.first(
      raw<{ n: number }>(`select count(*) as n from deliveries where lane = '~held.test' and status = ?`, [status]),
    )!.n
  // Nothing is tried until the operator releases the lane, so that the mail waits.
  assert.equal((await postrider.api('POST', '/lanes/held.test/hold')).status, 202)
  assert.equal((await kit.patch(campaign, { status: 'scheduled' })).status, 200)
  await until(() => count('queued') + count('held') === 1, 'the mail')
  assert.equal((await kit.patch(campaign, { status: 'paused' })).status, 200)
  await until(() => count('held') === 1, 'the mail that is held')
  await store.write((tx) => tx.run(raw(`delete from lane_holds`, [])))
  const ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  const { text } = await ann.open('/queue')
  assert.match(text, new RegExp(`held by the campaign\\s+<a href="/campaigns/${campaign}">Spring</a>\\s+\\(paused\\)`))
  assert.doesNotMatch(text, />Release</)
  // The commands say the same.
  const { commands } = postrider
  const say = async (...argv: string[]): Promise<string> => (await commands.run(['queue', ...argv])).stdout
  for (const name of ['list', 'lanes'])
    assert.match(await say(name), /1 recipient at held\.test held by the campaign Spring of ann@owner\.test \(paused\)/)
  const [{ id }] = await commands.json<[{ id: string }]>('queue', 'list')
  assert.match(await say('show', id), /: held, 0 attempts, by the campaign Spring, which is paused/)
  assert.match(
    await commands.fails('queue', 'retry', id),
    /held by the campaign Spring, which is paused; it goes on with it/,
  )
  assert.match(await say('release', id), /released\.\nA running server holds the mail again for the campaign Spring/)
})

test('what a lane learned is shown while it is remembered, also when its queue is empty (D64)', async (t) => {
  const postrider = await startTestAppliance()
  const commands = Commands.beside(postrider)
  t.after(async () => {
    await commands.close()
    await postrider.stop()
  })
  await givePassword(postrider, postrider.user.email, PASSWORD)
  const { clock, store } = postrider.appliance.deps
  // Commands have the machine's clock, the server has the test's.
  const rows = [clock.now(), Date.now()].flatMap((learned_at, index) =>
    ['', '~'].map((kind) => ({ lane: `${kind}${['server', 'command'][index]}.test`, learned_at })),
  )
  await store.write((tx) => {
    for (const { lane, learned_at } of rows)
      tx.run(
        raw(
          `insert into learned_lanes (lane, connections, per_second, paused_until, learned_at) values (?, 2, 1.5, null, ?)`,
          [lane, learned_at],
        ),
      )
  })
  const { body } = await postrider.api('GET', '/lanes')
  const lane = body.data.find(({ id }: { id: string }) => id === 'server.test')
  assert.partialDeepStrictEqual(lane.attributes, { queued: 0, active: 0, held: 0, connections: 2, per_second: 1.5 })
  const ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  const { text } = await ann.open('/queue')
  assert.match(
    text,
    /server\.test<\/a>\s+<span class="badge "\s*>empty<[\s\S]*takes 2 connections at once, takes 1\.5 mails a second/,
  )
  assert.match(text, />Hold</)
  assert.doesNotMatch(text, />Try now<|>Fail now</)
  const shown = (await commands.json('queue', 'lanes')) as { domain: string; queued: number; connections: number }[]
  assert.deepEqual(
    shown.filter(({ domain }) => domain === 'command.test').map(({ connections, queued }) => [connections, queued]),
    [[2, 0]],
  )
  for (const name of ['list', 'lanes'])
    assert.match((await commands.run(['queue', name])).stdout, /command\.test +- +empty +0 +0 +- +2 +1\.5/)
})
