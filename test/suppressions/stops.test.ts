// The result for a recipient when an email was claimed (suppressions/stops.ts): it is used only if the email was not
// blocked and no entry has changed since.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { knownStops, stopsNow, stopsOf, type KnownStops } from '../../src/suppressions/stops.ts'
import { suppress, type NewSuppression } from '../../src/suppressions/suppressions.ts'
import { recipientHash } from '../../src/base/recipient-hash.ts'
import { contactAddress } from '../../src/campaigns/contacts.ts'
import { recipientsOf } from '../../src/mail/accept/admit.ts'
import { names } from '../../src/store/erasing.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ofFile, setUp } from '../kit/of-file.ts'

let statements = 0

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))

setUp(async () => {
  postrider.appliance.deps.store.watch((sql) => (statements += Number(sql.includes('"suppressions"'))))
})

const NOW = 1_000_000
const wanted = (...names: string[]) => names.map((name) => ({ domain_key: domain.key, address: `${name}@there.test` }))
const stop = (name: string, more: Partial<NewSuppression> = {}) =>
  postrider.appliance.deps.store.write((tx) =>
    suppress(
      tx,
      {
        user_key: domain.user_key,
        domain_key: domain.key,
        address: `${name}@there.test`,
        reason: 'hard_bounce',
        source: 'smtp',
        scope: 'all',
        ...more,
      },
      NOW,
    ),
  )
const known = (names: string[], now = NOW): KnownStops => {
  const { keyring, store } = postrider.appliance.deps
  return knownStops(store, keyring, wanted(...names), now)
}
const reasons = (found: KnownStops, names: string[], now = NOW) => {
  const { keyring, store } = postrider.appliance.deps
  return stopsNow(found, store, keyring, wanted(...names), now).map((each) => each?.reason)
}

test('many recipients are read by one statement, each for itself', async () => {
  const { keyring, store } = postrider.appliance.deps
  await stop('bea')
  await stop('cid', { reason: 'unsubscribe', scope: 'marketing' })
  known(['x'])
  statements = 0
  const both = (scope: 'all' | 'marketing') =>
    stopsOf(store, keyring, wanted('ann', 'Bea', 'cid'), NOW, scope).map((each) => each?.reason)
  assert.deepEqual(both('all'), [undefined, 'hard_bounce', undefined])
  assert.deepEqual(both('marketing'), [undefined, 'hard_bounce', 'unsubscribe'])
  assert.equal(statements, 2)
})

test('the result "not blocked" is cached until an entry changes', async () => {
  const found = known(['dan'])
  statements = 0
  assert.deepEqual(reasons(found, ['dan']), [undefined])
  assert.equal(statements, 0)
  await stop('dan')
  assert.deepEqual(reasons(found, ['dan']), ['hard_bounce'])
})

test('an entry that was found is read again: it may have expired', async () => {
  await stop('eve', { reason: 'soft_bounce', expires_at: NOW + 1000 })
  const found = known(['eve'])
  assert.deepEqual(reasons(found, ['eve'], NOW + 999), ['soft_bounce'])
  assert.deepEqual(reasons(found, ['eve'], NOW + 1000), [undefined])
})

test('an address is one in every spelling of its letters: suppressed, erased and named twice (D36, D56, RFC 6532 §3.1)', async () => {
  const { keyring, store } = postrider.appliance.deps
  const [composed, decomposed] = ['zo\u00eb', 'ZOE\u0308'] as const
  for (const [kept, asked] of [
    [composed, decomposed],
    [decomposed, composed],
  ] as const) {
    await stop(`${kept}.${asked === composed ? 1 : 2}`)
    const [found] = stopsOf(store, keyring, wanted(`${asked}.${asked === composed ? 1 : 2}`), NOW)
    assert.equal(found?.reason, 'hard_bounce')
  }
  assert.equal(recipientHash(keyring, `${composed}@there.test`), recipientHash(keyring, `${decomposed}@there.test`))
  assert.equal(contactAddress(`${decomposed}@there.test`), `${composed}@there.test`)
  const recipients = recipientsOf({ to: `${decomposed}@there.test`, cc: `${composed}@there.test` })
  assert.deepEqual(
    recipients.map(({ address }) => address.address),
    [`${decomposed}@there.test`],
    'sent as it was given',
  )
  assert.ok(names(`Dear ${decomposed}@there.test,`, `${composed}@there.test`))
})
