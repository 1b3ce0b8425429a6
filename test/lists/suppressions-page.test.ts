// The page of suppressions: reasons in words, erased people without their hash, and who may allow an address again
// (D36, D143).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { givePassword } from '../kit/person.ts'
import { until } from '../kit/until.ts'

const PASSWORD = 'a password that is long enough'
let ann: Guest
let bob: Guest

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))
const theirs = ofFile(() => postrider.activeDomain('theirs.test', postrider.other))

setUp(async () => {
  const { store } = postrider.appliance.deps
  await store.write((tx) => tx.run(raw('update users set operator = (key = ?)', [postrider.user.key])))
  const signedIn = async (email: string): Promise<Guest> => {
    await givePassword(postrider, email, PASSWORD)
    const guest = new Guest(postrider)
    await guest.signIn(email, PASSWORD)
    return guest
  }
  ann = await signedIn(postrider.user.email)
  bob = await signedIn(postrider.other.email)
})

const add = async (guest: Guest, id: string, emails: string, reason: string) =>
  guest.send(await guest.open('/suppressions/new'), 'add', { domain: id, emails, reason })

test('what a person adds has the source manual, and the page says so in words', async () => {
  const page = await add(ann, domain.id, 'one@there.test\ntwo@there.test', 'manual')
  assert.match(page.text, /2 addresses are suppressed now\./)
  assert.match(page.text, /added by you<\/span/)
  const { data } = (await postrider.api('GET', '/suppressions?filter%5Bemail%5D=one@there.test')).body
  assert.deepEqual([data[0].attributes.source, data[0].attributes.reason], ['manual', 'manual'])
  for (const [reason, word] of [
    ['unsubscribe', 'left'],
    ['hard_bounce', 'bounced'],
    ['complaint', 'complained'],
    ['list_import', 'from a list'],
  ] as const) {
    await add(ann, domain.id, `${reason}@there.test`, reason)
    const shown = (await ann.open(`/suppressions?reason=${reason}`)).text
    assert.match(shown, new RegExp(`${word}</span`))
    assert.match(shown, new RegExp(`${reason}@there\\.test`))
    assert.doesNotMatch(shown, /one@there\.test/)
  }
  assert.doesNotMatch((await ann.open('/suppressions')).text, />(?:hard bounce|list import|complaint|manual)</)
})

test('an operator allows a bounce again; nobody else does, and no token', async () => {
  await add(ann, domain.id, 'hard@there.test', 'hard_bounce')
  await add(bob, theirs.id, 'hard@theirs.there.test', 'hard_bounce')
  await add(bob, theirs.id, 'by-hand@theirs.there.test', 'manual')
  const [{ id }] = (await postrider.api('GET', '/suppressions?filter%5Bemail%5D=hard@there.test')).body.data
  assert.equal((await postrider.api('DELETE', `/suppressions/${id}`)).status, 422)
  assert.equal((await postrider.api('POST', `/suppressions/${id}/release`)).status, 404)
  const page = await bob.open('/suppressions?q=hard@theirs')
  assert.doesNotMatch(page.text, /Allow again<\/button/)
  assert.match(page.text, /the operator of this server can allow it again/)
  assert.match((await bob.open('/suppressions?q=by-hand')).text, /Allow again<\/button/)
  // With the operator's form in hand all the same.
  const [{ id: other }] = (await postrider.asOther('GET', '/suppressions?filter%5Bemail%5D=hard@theirs.there.test'))
    .body.data
  await bob.send(await bob.open('/suppressions?q=by-hand'), 'remove', { action: 'release', id: other })
  assert.equal(
    (await postrider.asOther('GET', '/suppressions?filter%5Bemail%5D=hard@theirs.there.test')).body.data.length,
    1,
  )
  const freed = await ann.send(await ann.open('/suppressions?q=hard@there.test'), 'release')
  assert.match(freed.text, /hard@there\.test gets mail again\./)
  assert.deepEqual((await postrider.api('GET', '/suppressions?filter%5Bemail%5D=hard@there.test')).body.data, [])
})

test('an erased person is called so, with the day of the erasure, and never by a hash', async () => {
  await add(ann, domain.id, 'erased@there.test', 'unsubscribe')
  assert.equal((await postrider.api('DELETE', '/recipients/erased@there.test/forget')).status, 202)
  await until(async () => !(await ann.open('/suppressions')).text.includes('erased@there.test'))
  const { text } = await ann.open('/suppressions')
  assert.match(text, /Forgotten person \(erased\s*<time datetime="2026-01-15/)
  assert.doesNotMatch(text, /#[0-9a-f]{64}/)
})
