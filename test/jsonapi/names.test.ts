// Tests the names that users give: characters that hide or reverse text are refused everywhere, others stay.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'

const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'] }))

test('names with invisible characters or controls of the text direction are refused, joiners and marks are not', async () => {
  const [{ id }] = (await postrider.api('GET', '/domains')).body.data
  const domain = { relationships: { domain: { data: { type: 'domains', id } } } }
  const { body } = await postrider.api('GET', '/brand')
  const create = {
    audience: (name: string) => postrider.api('POST', '/audiences', document('audiences', { name }, domain)),
    title: (title: string) => postrider.api('POST', '/audiences', document('audiences', { name: 'x', title }, domain)),
    token: (name: string) =>
      postrider.api('POST', '/tokens', document('tokens', { name, scopes: ['emails:read'], duration: '1_month' })),
    inbox: (name: string) =>
      postrider.api('POST', '/inboxes', document('inboxes', { name, address: `i${Math.random()}@here.test` })),
    webhook: (name: string) =>
      postrider.api(
        'POST',
        '/webhooks',
        document('webhooks', { name, url: 'https://hook.here.test/', events: ['*'] }, domain),
      ),
    sender: (sender_name: string) =>
      postrider.api('PATCH', '/brand', { data: { ...body.data, attributes: { sender_name } } }),
  }
  for (const [what, ask] of Object.entries(create)) {
    for (const name of ['Shop\u202egnp.exe', 'Shop\u200b', '\u2066Shop', '\ufeffShop', '\u3164']) {
      const { body: refused, status } = await ask(name)
      assert.equal(status, 422, `${what} ${JSON.stringify(name)}`)
      assert.match(refused.errors[0].detail, /invisible characters/)
    }
    const family = '\u{1f468}\u200d\u{1f469}\u200d\u{1f467}'
    for (const name of [family, '\u{2764}\ufe0f', '\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645', 'a\u200fb'])
      assert.doesNotMatch(
        JSON.stringify((await ask(name)).body),
        /invisible characters/,
        `${what} ${JSON.stringify(name)}`,
      )
  }
})
