// Emails of an account to a recipient: their form, and the limits of those that anybody can request for an address.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, MINUTE } from '../../src/base/clock.ts'
import { sendToRecipient, type RecipientEmail } from '../../src/recipients/email.ts'
import { forgetCounted } from '../../src/recipients/limits.ts'
import { raw } from '../../src/store/query.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))

function send(to: string, given: Partial<RecipientEmail> = {}) {
  const { bells, clock, store, ...deps } = postrider.appliance.deps
  const email: RecipientEmail = {
    domain,
    to,
    lang: 'de',
    subject: 'Ihr Link\r\nBcc: x@there.test',
    text: ['Sehen Sie <b>hier</b> & da.'],
    button: { label: 'Meine Daten zeigen', url: 'https://mail.here.test/me/x?a=1&b=2' },
    after: ['Zuletzt.', { label: 'Nicht ich', url: 'https://mail.here.test/no' }],
    tag: 'subscriber_link',
    ...given,
  }
  return store.write((tx) => sendToRecipient(tx, { ...deps, ring: bells.deliveries }, email, clock.now()))
}

const heard = (to: string) =>
  until(() => exchanger.heard.find((each) => each.to.includes(to))?.message, `an email to ${to}`)

test('an email to a recipient has both parts, its language, its tag and the mark of automatic email, without tracking', async () => {
  const { id } = domain
  const tracking = { open_tracking_enabled: true, click_tracking_enabled: true }
  const changed = await postrider.api('PATCH', `/domains/${id}`, document('domains', tracking, { id }))
  assert.equal(changed.status, 200)
  const sent = await send('form@there.test')
  assert.equal(sent.result, 'sent')
  const message = await heard('form@there.test')
  assert.match(message, /^Auto-Submitted: auto-generated\r$/m)
  assert.match(message, /^From: noreply@here\.test\r$/m)
  assert.doesNotMatch(message, /^(?:Bcc|List-Unsubscribe):/im)
  const shown = (await postrider.api('GET', `/outbound-emails/${sent.id}`)).body.data.attributes
  assert.equal(shown.subject, 'Ihr Link Bcc: x@there.test')
  assert.deepEqual(shown.tags, ['subscriber_link'])
  assert.deepEqual([shown.track_opens, shown.track_clicks], [false, false])
  assert.match(shown.html, /<html lang="de">/)
  assert.match(shown.html, /&lt;b&gt;hier&lt;\/b&gt; &amp; da/)
  assert.match(shown.html, /href="https:\/\/mail\.here\.test\/me\/x\?a=1&amp;b=2"/)
  assert.equal(
    shown.text,
    'Sehen Sie <b>hier</b> & da.\n\nMeine Daten zeigen:\nhttps://mail.here.test/me/x?a=1&b=2\n\nZuletzt.\n\nNicht ich:\nhttps://mail.here.test/no\n',
  )
  assert.ok(message.length < 20_000)
})

test('the sender is the brand, with its address if that is on the sending domain', async () => {
  const brand = async (given: Record<string, unknown>) => {
    const { id } = postrider.user
    assert.equal((await postrider.api('PATCH', '/brand', document('brands', given, { id }))).status, 200)
  }
  await brand({ sender_name: 'Old Trees', from_address: 'news@here.test' })
  await send('brand@there.test')
  assert.match(await heard('brand@there.test'), /^From: Old Trees <news@here\.test>\r$/m)
  await postrider.activeDomain('other.test')
  await brand({ from_address: 'news@other.test' })
  await send('name@there.test')
  assert.match(await heard('name@there.test'), /^From: Old Trees <noreply@here\.test>\r$/m)
  await brand({ sender_name: null, from_address: null })
})

test('unsubscribe links are in the header of an email that has them', async () => {
  await send('list@there.test', { unsubscribe: { uris: ['https://mail.here.test/u/x'], one_click: true, mail: false } })
  const message = await heard('list@there.test')
  assert.match(message, /^List-Unsubscribe: <https:\/\/mail\.here\.test\/u\/x>\r$/m)
  assert.match(message, /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r$/m)
})

test('an email with a key is sent once', async () => {
  const first = await send('once@there.test', { idempotencyKey: 'once', limit: { audience: null } })
  const second = await send('once@there.test', { idempotencyKey: 'once' })
  assert.deepEqual(second, first)
})

test('an address gets one email of a kind about an audience in 5 minutes, and three in 24 hours over all accounts (AU37)', async () => {
  const to = 'Limit@there.test'
  const limit = (audience: number | null) => ({ limit: { audience } })
  assert.equal((await send(to, limit(1))).result, 'sent')
  assert.equal((await send(to.toLowerCase(), limit(1))).result, 'limited')
  assert.equal((await send(to, limit(2))).result, 'sent')
  postrider.clock.leap(5 * MINUTE)
  assert.equal((await send(to, limit(1))).result, 'sent')
  const other = await postrider.activeDomain('elsewhere.test', postrider.other)
  assert.equal((await send(to, { domain: other, ...limit(3) })).result, 'limited')
  // Sign-ups are counted apart: they must not block the link, and the other way round.
  assert.equal((await send(to, { ...limit(4), tag: 'confirmation' })).result, 'sent')
  // Emails without a limit are not counted, and are sent.
  assert.equal((await send(to)).result, 'sent')
  assert.equal((await send('else@there.test', { limit: { audience: 1, perAddress: 0 } })).result, 'limited')
  const { deps } = postrider.appliance
  const rows = () => deps.store.all(raw<{ recipient_hash: string }>('select recipient_hash from recipient_emails'))
  assert.ok(rows().length >= 3 && rows().every(({ recipient_hash }) => /^[0-9a-f]{64}$/.test(recipient_hash)))
  postrider.clock.leap(DAY)
  assert.equal((await send(to, limit(1))).result, 'sent')
  await forgetCounted(deps.store, postrider.clock.now())
  assert.equal(rows().length, 1)
})

test('a suppressed address and a domain that cannot send get no email, and nothing is written or counted', async () => {
  const count = () => {
    const all = raw<{ count: number }>(
      'select (select count(*) from outbound_emails) + (select count(*) from recipient_emails) as count',
    )
    return postrider.appliance.deps.store.first(all)!.count
  }
  const entry = {
    user_key: domain.user_key,
    domain_key: domain.key,
    address: 'stop@there.test',
    source: 'manual',
  } as const
  const { store } = postrider.appliance.deps
  await store.write((tx) => suppress(tx, { ...entry, reason: 'manual', scope: 'all' }, postrider.clock.now()))
  const before = count()
  const limit = { audience: null }
  assert.deepEqual(await send('stop@there.test', { limit }), { result: 'suppressed' })
  const none = { name: 'none.test', user_key: domain.user_key }
  assert.deepEqual(await send('none@there.test', { domain: none, limit }), { result: 'refused' })
  assert.equal(count(), before)
})
