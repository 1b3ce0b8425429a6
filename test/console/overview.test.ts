// Tests the overview: one number of delivered emails, and problems with severity and one action.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { givePassword } from '../kit/person.ts'
import { until } from '../kit/until.ts'

const PASSWORD = 'a long enough password'
const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test'] }))
let ann: Guest

setUp(async () => {
  await givePassword(postrider, postrider.user.email, PASSWORD)
  ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
})

test('the card and the chart show the same number of delivered emails, even after a later bounce', async () => {
  for (const name of ['ann', 'ben', 'eve']) {
    const attributes = { from: 'ann@here.test', to: `${name}@there.test`, subject: 'Hello', html: '<p>Hello</p>' }
    await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))
  }
  await until(async () => {
    const { body } = await postrider.api('GET', '/statistics')
    return body.data.attributes.delivered === 3
  }, 'three deliveries')
  // The effect of a bounce message on the statistics: one delivery is subtracted.
  await postrider.appliance.deps.store.write((tx) =>
    tx.run(raw('update tallies set deliveries = deliveries - 1, bounces = bounces + 1', [])),
  )
  const { text } = await ann.open('/')
  assert.match(
    text,
    /<span>Delivered<\/span\s*><strong>3<\/strong><span>accepted by the receiving server, 1 bounced later<\/span>/,
  )
  assert.match(text, /Delivered <b>3<\/b>/)
  assert.match(
    text,
    /Delivered: the receiving server accepted the email\.[^]*Later bounces count only in the bounce rate/,
  )
  assert.match(text, /href="\/mail\?q=status%3Adelivered%20after%3A2026-01-14T12%3A00Z"/)
})

test('groups problems by severity, each with one action, and leaves the focus alone', async () => {
  await postrider.activeDomain('late.test')
  await postrider.appliance.deps.store.write((tx) => {
    tx.run(raw(`update domains set status = 'verifying' where name = 'late.test'`, []))
    tx.run(
      raw(
        `update tallies set bounces = 1000 where domain_key in (select key from domains where name = 'here.test')`,
        [],
      ),
    )
  })
  const { text } = await ann.open('/')
  const [, delivery = ''] = /<h3>Delivery<\/h3>([^]*?)<\/ul>/.exec(text) ?? []
  const items = [...delivery.matchAll(/<li class="(bad|waits)">([^]*?)<\/li>/g)].map(([, weight, inner = '']) => [
    weight,
    [...inner.matchAll(/<a class="button plain small" href="([^"]*)"/g)].map(([, to]) => to),
  ])
  assert.deepEqual(items, [
    ['bad', ['/receivers']],
    ['waits', ['/domains/late.test']],
  ])
  assert.match(delivery, /<span class="hidden">Problem:<\/span>/)
  assert.match(delivery, /late\.test is verifying: it cannot send yet\./)
  assert.doesNotMatch(text, /autofocus/)
  const [, server = ''] = /<h3>Server<\/h3>([^]*?)<\/ul>/.exec(text) ?? []
  assert.match(server, /href="\/server"/)
})

test('focuses the invalid field after a rejected form, even without JavaScript', async () => {
  const { text } = await ann.send(await ann.open('/domains/new'), 'add', { name: 'not a domain', purpose: 'both' })
  assert.match(text, /<input[^>]*id="name"[^>]*aria-invalid="true"\s+autofocus/)
  assert.equal([...text.matchAll(/autofocus/g)].length, 1)
  // A choice is marked like a line of text.
  for (const at of ['/audiences/new', '/webhooks/new', '/suppressions/new']) {
    const typed = { name: 'News', domain: 'gone', url: 'https://x.test/', emails: 'a@x.test', reason: 'manual' }
    const refused = await ann.send(await ann.open(at), 'add', { ...typed, events: '*' })
    assert.match(refused.text, /<select[^>]*id="domain"[^>]*aria-invalid="true"\s+autofocus/, at)
  }
})

test('the overview and the server page show server problems even while the database is not writable', async () => {
  const { store, troubles } = postrider.appliance.deps
  const write = store.write.bind(store)
  store.write = (() => Promise.reject(Object.assign(new Error('full'), { code: 'SQLITE_FULL' }))) as never
  troubles.report('store', 'The database is not writable.')
  try {
    for (const path of ['/', '/server'])
      assert.match((await ann.open(path)).text, /The database is not writable\./, path)
    const [, server = ''] = /<h3>Server<\/h3>([^]*?)<\/ul>/.exec((await ann.open('/')).text) ?? []
    assert.match(server, /<li class="bad">[^]*?The database is not writable\.[^]*?href="\/server"/)
  } finally {
    store.write = write
    troubles.clear('store')
  }
})
