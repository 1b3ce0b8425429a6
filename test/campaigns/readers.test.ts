// The order of a campaign: active readers of the last 90 days come first, then the others by key.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY } from '../../src/base/clock.ts'
import { campaignByKey } from '../../src/campaigns/edit.ts'
import { lastContact, nextPage, walked } from '../../src/campaigns/walk.ts'
import { noteVisit } from '../../src/mail/tracking.ts'
import { raw } from '../../src/store/query.ts'
import { findPair } from '../../src/warmup/pairs.ts'
import { setPair } from '../../src/warmup/settings.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

test('sends to active readers first and to each contact once, even if others open during the campaign', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const { keyring, store } = postrider.appliance.deps
  const { clock } = postrider
  const kit = campaignKit(() => postrider)
  const audience = await kit.audience(store.one(raw<{ id: string }>('select id from domains')))
  const names = Array.from({ length: 250 }, (_, n) => `n${n}@there.test`)
  await kit.fill(audience, names)
  const id = await kit.draft(audience)
  const { key: list } = store.one(raw<{ key: number }>('select key from audiences'))
  const reads = (fits: (n: number) => boolean, at: number) =>
    store.write((tx) => {
      for (const email of names.filter((_, n) => fits(n)))
        tx.run(
          raw(
            `insert into readers (audience_key, contact_key, seen_at) select audience_key, key, ? from contacts
             where email = ? on conflict do update set seen_at = excluded.seen_at`,
            [at, email],
          ),
        )
    })
  const isReader = (n: number): boolean => n % 2 === 1
  await reads(isReader, clock.now() - 89 * DAY)
  await reads((n) => n === 8, clock.now() - 91 * DAY)
  await store.write((tx) =>
    tx.run(
      raw('update campaigns set started_at = ?, last_contact = ? where id = ?', [
        clock.now(),
        lastContact(tx, list),
        id,
      ]),
    ),
  )
  const { key } = store.one(raw<{ key: number }>('select key from campaigns'))
  const written: string[] = []
  for (let page = 0; !walked(campaignByKey(store, key)!); page++) {
    await store.write((tx) => {
      const { mails, to } = nextPage(tx, keyring, campaignByKey(tx, key)!)
      written.push(...mails.map(({ email }) => email))
      tx.run(
        raw('update campaigns set readers_to = ?, walked_to = ? where key = ?', [to.readers_to, to.walked_to, key]),
      )
    })
    // Some recipients open the email, and other contacts become active readers at this moment.
    if (page < 3) await reads((n) => n % 5 === page, clock.now() + page)
  }
  const readers = names.filter((_, n) => isReader(n))
  assert.deepEqual(written.slice(0, 100), readers.slice(0, 100), 'first those who read, in the order of their keys')
  assert.ok(written.indexOf('n8@there.test') > written.indexOf('n249@there.test'), 'who read long ago is not first')
  assert.deepEqual(written.toSorted(), names.toSorted(), 'each once')
  assert.equal(store.one(raw<{ n: number }>('select count(*) as n from written_first')).n, 0)
})

test('uses a daily limit for active readers first, and shows when the rest will be sent', async () => {
  const exchanger = testExchanger()
  await using postrider = await startTestAppliance({
    exchanger,
    config: { warmup: { private: true } },
    domains: ['here.test'],
    routes: ['there.test'],
  })
  const { config, log, store } = postrider.appliance.deps
  const { clock } = postrider
  const kit = campaignKit(() => postrider)
  const audience = await kit.audience(store.one(raw<{ id: string }>('select id from domains')))
  await kit.fill(
    audience,
    Array.from({ length: 10 }, (_, n) => `n${n}@there.test`),
  )
  assert.equal(await kit.send(await kit.draft(audience)), 'sent')
  clock.leap(DAY)
  const keyOf = (to: string): number =>
    store.one(raw<{ key: number }>('select key from deliveries where address = ?', [to])).key
  const browser = { method: 'GET', userAgent: 'Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0' }
  await noteVisit({ store, clock }, 'opened', keyOf('n8@there.test'), browser)
  await noteVisit({ store, clock }, 'clicked', keyOf('n9@there.test'), browser, 'https://here.test/')
  // The visit of a machine does not count.
  await noteVisit({ store, clock }, 'opened', keyOf('n5@there.test'), { method: 'GET', userAgent: 'curl/8' })
  const pair = { source: 'default', receiver: 'there.test' }
  const fix = (count: number) =>
    store.write((tx) =>
      setPair({ tx, config, log, now: clock.now(), noticed: () => {} }, findPair(tx, pair)!, { fix: count }, 'ann'),
    )
  await fix(4)
  exchanger.heard.length = 0
  const second = await kit.draft(audience)
  await kit.patch(second, { status: 'scheduled' })
  const heard = (): string[] => exchanger.heard.map(({ to }) => to[0]!)
  await until(() => heard().length === 3, 'those that have a place')
  const forecast = async () => (await postrider.api('GET', `/campaigns/${second}/forecast`)).body.data.attributes
  clock.advance(10_000)
  await until(async () => {
    clock.advance(10_000)
    const { recipients, waiting_for_warmup } = await forecast()
    return waiting_for_warmup === 7 && recipients === 7
  }, 'the others wait')
  assert.deepEqual(heard().toSorted(), ['n0@there.test', 'n8@there.test', 'n9@there.test'])
  const { days, ends_at } = await forecast()
  assert.equal(days, 4)
  const ann = await signedIn(postrider)
  const { text } = await ann.open(`/campaigns/${second}`)
  assert.match(text, /7 emails are queued because mailbox providers limit/)
  assert.ok(text.includes(`sending finishes <time datetime="${ends_at}"`), ends_at)
  await fix(100)
  clock.advance(1000)
  await until(() => heard().length === 10, 'all others')
  assert.deepEqual(new Set(heard()).size, 10)
})
