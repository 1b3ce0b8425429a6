// A campaign from draft to statistics, over real sockets.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { authenticate } from 'mailauth'
import { simpleParser } from 'mailparser'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { findMails, showQueued } from '../../src/delivery/queue/operator.ts'
import { raw } from '../../src/store/query.ts'
import type { RowOf } from '../../src/store/schema/tables.ts'
import { payloadOf } from '../../src/webhooks/payload.ts'

const kit = campaignKit(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger }))
const domain = ofFile(() => postrider.activeDomain('here.test'))

setUp(async () => {
  for (const name of ['there.test', 'elsewhere.test']) {
    postrider.dns.set(name, 'MX', ['10 mx.there.test'])
    postrider.dns.set('mx.there.test', 'A', ['127.0.0.1'])
  }
})

const heardBy = (address: string) => exchanger.heard.filter(({ to }) => to.includes(address))

test('sends each subscribed contact one signed email with an unsubscribe link', async () => {
  const audience = await kit.audience(domain)
  await kit.fill(audience, [
    { email: 'Ann@There.test', name: 'Ann <b>', custom_fields: { plan: 'Größe & "mehr"', n: 7 } },
    { email: 'bob@elsewhere.test' },
    { email: 'gone@there.test' },
  ])
  const gone = (await postrider.api('GET', `/audiences/${audience}/contacts?filter[email]=gone@there.test`)).body
    .data[0]
  await postrider.api('PATCH', `/contacts/${gone.id}`, {
    data: { type: 'contacts', id: gone.id, attributes: { status: 'unsubscribed' } },
  })
  await postrider.api('PATCH', `/domains/${domain.id}`, {
    data: { type: 'domains', id: domain.id, attributes: { click_tracking_enabled: true, open_tracking_enabled: true } },
  })
  const campaign = await kit.draft(audience, {
    subject: 'For {{ name }}: {{plan}}',
    body_html:
      '<html><body><p>Dear {{name}}, {{plan}} {{n}} {{nothing}}{{__proto__}}.</p><a href="https://shop.test/?u={{email}}&amp;x=1">Shop</a> <a href="{{unsubscribe_url}}">Leave</a></body></html>',
  })
  assert.equal(await kit.send(campaign), 'sent')
  assert.deepEqual(
    exchanger.heard.map(({ to }) => to[0]!).toSorted((a, b) => (a < b ? -1 : 1)),
    ['ann@there.test', 'bob@elsewhere.test'],
  )
  const { message } = heardBy('ann@there.test')[0]!
  const { dkim } = await authenticate(Buffer.from(message), {
    ip: '127.0.0.1',
    sender: 'x@here.test',
    resolver: async (name: string, type: string) => {
      const answer = await postrider.dns.resolver.txt(name)
      if (type !== 'TXT' || answer.kind !== 'found') throw Object.assign(new Error(), { code: 'ENOTFOUND' })
      return answer.records.map((text) => [text])
    },
  })
  assert.equal(dkim.results[0]!.status.result, 'pass')
  const mail = await simpleParser(message)
  assert.equal(mail.subject, 'For Ann <b>: Größe & "mehr"')
  // The API and events have the same subject, with the tags if the recipient is no longer known.
  const { store } = postrider.appliance.deps
  const shownOf = async (address: string): Promise<string[]> => {
    const [listed] = (await postrider.api('GET', `/outbound-emails?filter[to]=${address}`)).body.data
    const [row] = store.all(raw<{ key: number }>('select key from outbound_emails where id = ?', [listed.id]))
    const event = { type: 'email.sent', data: '{"delivery":0}', created_at: 0, email_key: row!.key }
    return [
      listed.attributes.subject,
      (await postrider.api('GET', `/outbound-emails/${listed.id}`)).body.data.attributes.subject,
      showQueued(store, listed.id)!.subject,
      findMails(store, { address })[0]!.subject,
      JSON.parse(payloadOf(store, event as RowOf<'events'>)!).data.subject,
    ]
  }
  assert.deepEqual(new Set(await shownOf('ann@there.test')), new Set([mail.subject]))
  assert.deepEqual(new Set(await shownOf('bob@elsewhere.test')), new Set(['For : ']))
  assert.match(mail.html as string, /Dear Ann &lt;b&gt;, Größe &amp; &quot;mehr&quot; 7 \./)
  assert.match(mail.text!, /Dear Ann <b>, Größe & "mehr" 7 \./)
  assert.match(mail.html as string, /href="http:\/\/127\.0\.0\.1:8025\/t\/c\/[\w-]+">Shop/)
  assert.match(mail.html as string, /href="http:\/\/127\.0\.0\.1:8025\/u\/[\w-]+">Leave/)
  assert.match(mail.html as string, /\/t\/o\/[\w-]+\.gif/)
  const list = mail.headers.get('list') as unknown as { unsubscribe: { url: string; mail: string } }
  assert.match(list.unsubscribe.url, /\/u\//)
  assert.match(list.unsubscribe.mail, /^u-[a-z2-7]+@bounce\.here\.test/)
  assert.match(message, /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r$/m)
  assert.match(message, /^List-Id: <.*\.here\.test>/m)

  const { deliveries, recipients, bounces } = await kit.stats(campaign)
  assert.deepEqual([recipients, deliveries, bounces], [2, 2, 0])
  const url = new URL(list.unsubscribe.url)
  const page = await postrider.raw(url.pathname)
  assert.equal(page.status, 200)
  assert.match(page.body, /Unsubscribe from everything/)
  assert.equal((await postrider.api('GET', '/suppressions?filter[email]=ann@there.test')).body.data.length, 0)
  const left = await postrider.raw(url.pathname, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'List-Unsubscribe=One-Click',
  })
  assert.match(left.body, /You no longer receive newsletters from here\.test/)
  assert.equal((await kit.stats(campaign))['unsubscribes'], 1)
  const second = await kit.draft(audience)
  assert.equal(await kit.send(second), 'sent')
  assert.equal((await kit.show(second))['recipients'], 1)
  assert.equal(heardBy('ann@there.test').length, 1)
  assert.equal(heardBy('bob@elsewhere.test').length, 2)

  const [bob] = (await postrider.api('GET', `/audiences/${audience}/contacts?filter[email]=bob@elsewhere.test`)).body
    .data
  assert.equal((await postrider.api('DELETE', `/contacts/${bob.id}`)).status, 204)
  const mails = (await postrider.api('GET', '/outbound-emails?filter[to]=bob@elsewhere.test&sort=created_at')).body.data
  assert.equal(mails[0].attributes.subject, 'For {{ name }}: {{plan}}')
})
