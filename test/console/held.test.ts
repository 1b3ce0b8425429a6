// The queue page: email that a paused campaign holds, and the learned limits of recipient domains.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { Commands } from '../commands/command.ts'
import { campaignKit } from '../kit/campaign.ts'
import { Guest } from '../kit/guest.ts'
import { givePassword } from '../kit/person.ts'
import { until } from '../kit/until.ts'

const PASSWORD = 'a long enough password'

test('shows email held by a paused campaign, which only the campaign releases', async (t) => {
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
  // The queue is held, so that the email waits until the operator releases it.
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
  // The commands show the same.
  const { commands } = postrider
  const say = async (...argv: string[]): Promise<string> => (await commands.run(['queue', ...argv])).stdout
  for (const name of ['list', 'lanes'])
    assert.match(await say(name), /1 recipient at held\.test held by the campaign Spring of ann@owner\.test \(paused\)/)
  const [{ id }] = await commands.json<[{ id: string }]>('queue', 'list')
  assert.match(await say('show', id), /: held, 0 attempts, by the campaign Spring, which is paused/)
  assert.match(
    await commands.fails('queue', 'retry', id),
    /held by the campaign Spring, which is paused; resume the campaign to send it/,
  )
  assert.match(await say('release', id), /released\.\nA running server holds the email again for the campaign Spring/)
})

test('"Retry now" names how many emails it retries, and what holds the others', async (t) => {
  const postrider = await startTestAppliance()
  t.after(() => postrider.stop())
  const domain = await postrider.activeDomain('here.test')
  await givePassword(postrider, postrider.user.email, PASSWORD)
  const kit = campaignKit(() => postrider)
  const audience = await kit.audience(domain)
  await kit.fill(audience, ['reader@held.test'])
  const campaign = await kit.draft(audience)
  const { store } = postrider.appliance.deps
  assert.equal((await postrider.api('POST', '/lanes/held.test/hold')).status, 202)
  for (const to of ['ada@held.test', 'ben@held.test']) {
    const attributes = { from: 'ann@here.test', to, subject: 'A receipt', html: '<p>Thanks</p>' }
    await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))
  }
  await kit.patch(campaign, { status: 'scheduled' })
  const lane = async () => (await postrider.api('GET', '/lanes?filter[domain]=held.test')).body.data[0].attributes
  await until(async () => (await lane()).queued === 3, 'the mail')
  await kit.patch(campaign, { status: 'paused' })
  await until(async () => (await lane()).held === 1, 'the mail that is held')
  const ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  // On hold, nothing can be retried.
  assert.doesNotMatch((await ann.open('/queue')).text, />Retry/)
  await store.write((tx) => tx.run(raw(`delete from lane_holds`, [])))
  const page = await ann.open('/queue')
  assert.match(page.text, />Retry 2 now</)
  assert.match(
    page.text,
    /value="Retries 2 emails to held\.test now\. 1 stays held by the campaign Spring \(paused\)\."/,
  )
  const { text } = await ann.send(page, 'retry')
  assert.match(text, /Retrying 2 emails to held\.test now\. 1 stays held by the campaign Spring \(paused\)\./)
  // The API has the number in its answer.
  assert.equal((await postrider.api('POST', '/lanes/other.test/retry')).body.data.attributes.moved, 0)
  assert.equal((await lane()).moved, null)
})

test('shows the learned limits of a recipient domain, even if its queue is empty (D64)', async (t) => {
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
    /server\.test<\/a>\s+<span class="badge "\s*>empty<[\s\S]*at most 2 connections, at most 1\.5 emails per second/,
  )
  assert.match(text, />Hold</)
  assert.doesNotMatch(text, />Retry now<|>Fail now</)
  const shown = (await commands.json('queue', 'lanes')) as { domain: string; queued: number; connections: number }[]
  assert.deepEqual(
    shown.filter(({ domain }) => domain === 'command.test').map(({ connections, queued }) => [connections, queued]),
    [[2, 0]],
  )
  for (const name of ['list', 'lanes'])
    assert.match((await commands.run(['queue', name])).stdout, /command\.test +- +empty +0 +0 +- +2 +1\.5/)
})
