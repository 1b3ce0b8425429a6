// The page of suppressions: reasons as text, erased addresses without their hash, and permissions to reactivate an
// address (D36, D143).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

let ann: Guest
let bob: Guest

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))
const theirs = ofFile(() => postrider.activeDomain('theirs.test', postrider.other))

setUp(async () => {
  const { store } = postrider.appliance.deps
  await store.write((tx) => tx.run(raw('update users set operator = (key = ?)', [postrider.user.key])))
  ann = await signedIn(postrider)
  bob = await signedIn(postrider, postrider.other.email)
})

const add = async (guest: Guest, id: string, emails: string, reason: string) =>
  guest.send(await guest.open('/suppressions/new'), 'add', { domain: id, emails, reason })

test('adds entries with the source manual and shows it', async () => {
  const page = await add(ann, domain.id, 'one@there.test\ntwo@there.test', 'manual')
  assert.match(page.text, /2 addresses suppressed\./)
  assert.match(page.text, /added manually<\/span/)
  const { data } = (await postrider.api('GET', '/suppressions?filter%5Bemail%5D=one@there.test')).body
  assert.deepEqual([data[0].attributes.source, data[0].attributes.reason], ['manual', 'manual'])
  for (const [reason, word] of [
    ['unsubscribe', 'unsubscribed'],
    ['hard_bounce', 'bounced'],
    ['complaint', 'complained'],
    ['list_import', 'imported'],
  ] as const) {
    await add(ann, domain.id, `${reason}@there.test`, reason)
    const shown = (await ann.open(`/suppressions?reason=${reason}`)).text
    assert.match(shown, new RegExp(`${word}</span`))
    assert.match(shown, new RegExp(`${reason}@there\\.test`))
    assert.doesNotMatch(shown, /one@there\.test/)
  }
  const { store } = postrider.appliance.deps
  await store.write((tx) => tx.run(raw(`update suppressions set expires_at = 1e12 where email = 'two@there.test'`)))
  assert.match((await ann.open('/suppressions?q=two')).text, /two@there\.test\s+<span class="why"\s*><span>until <time/)
  assert.doesNotMatch((await ann.open('/suppressions?q=one')).text, />until </)
  assert.doesNotMatch((await ann.open('/suppressions')).text, />(?:hard bounce|list import|complaint|manual)</)
})

test('lets only an operator reactivate a bounced address, and no token', async () => {
  await add(ann, domain.id, 'hard@there.test', 'hard_bounce')
  await add(bob, theirs.id, 'hard@theirs.there.test', 'hard_bounce')
  await add(bob, theirs.id, 'by-hand@theirs.there.test', 'manual')
  const [{ id }] = (await postrider.api('GET', '/suppressions?filter%5Bemail%5D=hard@there.test')).body.data
  assert.equal((await postrider.api('DELETE', `/suppressions/${id}`)).status, 422)
  assert.equal((await postrider.api('POST', `/suppressions/${id}/release`)).status, 404)
  const page = await bob.open('/suppressions?q=hard@theirs')
  assert.doesNotMatch(page.text, /Reactivate<\/button/)
  assert.match(page.text, /the operator of this server can reactivate it/)
  assert.match((await bob.open('/suppressions?q=by-hand')).text, /Reactivate<\/button/)
  // Even with the operator's form.
  const [{ id: other }] = (await postrider.asOther('GET', '/suppressions?filter%5Bemail%5D=hard@theirs.there.test'))
    .body.data
  await bob.send(await bob.open('/suppressions?q=by-hand'), 'remove', { action: 'release', id: other })
  assert.equal(
    (await postrider.asOther('GET', '/suppressions?filter%5Bemail%5D=hard@theirs.there.test')).body.data.length,
    1,
  )
  const freed = await ann.send(await ann.open('/suppressions?q=hard@there.test'), 'release')
  assert.match(freed.text, /hard@there\.test can receive your email again\./)
  assert.deepEqual((await postrider.api('GET', '/suppressions?filter%5Bemail%5D=hard@there.test')).body.data, [])
})

test('shows an erased recipient with the day of the erasure and without a hash', async () => {
  await add(ann, domain.id, 'erased@there.test', 'unsubscribe')
  assert.equal((await postrider.api('DELETE', '/recipients/erased@there.test/forget')).status, 202)
  await until(async () => !(await ann.open('/suppressions')).text.includes('erased@there.test'))
  const { text } = await ann.open('/suppressions')
  assert.match(text, /Erased recipient \(\s*<time datetime="2026-01-15/)
  assert.doesNotMatch(text, /#[0-9a-f]{64}/)
})
