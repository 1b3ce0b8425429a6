// HEAD asks, and spends nothing: no link that works once, no secret that is shown once, no place of a live page
// (RFC 9110 §9.3.2). Files: privacy/export.test.ts; links to unsubscribe: campaigns/pages.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeLink } from '../../src/identity/sign-in-links.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { Guest, type Shown } from '../kit/guest.ts'
import { ofFile } from '../kit/of-file.ts'
import { givePassword } from '../kit/person.ts'

const PASSWORD = 'a long enough password'
const postrider = ofFile(() => startTestAppliance())
const isIn = ({ text }: Shown): boolean => !text.includes('name="password"')

test('a link that signs in once is not used up by HEAD, printed or mailed', async () => {
  const { clock, store } = postrider.appliance.deps
  for (const now of ['', '&now=1']) {
    const link = `/sign-in?link=${await store.write((tx) => makeLink(tx, postrider.user, clock.now()))}${now}`
    const headers = { 'sec-fetch-site': 'none' }
    for (let times = 0; times < 3; times++) {
      const asked = await new Guest(postrider).open(link, { method: 'HEAD', headers })
      assert.deepEqual([asked.status, asked.text], [200, ''])
      assert.equal(asked.headers.get('set-cookie')?.includes('session=') ?? false, false)
    }
    const guest = new Guest(postrider)
    const page = await guest.open(link, { headers })
    if (now === '') await guest.send(page, 'use-link')
    assert.ok(isIn(await guest.open('/')))
  }
})

test('a secret that a page shows once, and the sentence about what was done, are shown after HEAD', async () => {
  await givePassword(postrider, postrider.user.email, PASSWORD)
  let heads = 0
  const guest = new Guest({
    async page(path, init) {
      if (/[?&](?:secret|said)=/.test(path)) {
        heads++
        assert.equal((await postrider.page(path, { ...init, method: 'HEAD' })).status, 200)
      }
      return postrider.page(path, init)
    },
  })
  await guest.signIn(postrider.user.email, PASSWORD)
  const made = await guest.send(await guest.open('/tokens/new'), 'make', {
    name: 'a',
    scopes: 'emails:send',
    duration: '1_month',
  })
  assert.match(made.text, /<code class="secret" id="secret">pr_\w+<\/code>/)
  assert.equal(heads, 1)
})

test('HEAD takes no place among the live pages of a person', async () => {
  await givePassword(postrider, postrider.user.email, PASSWORD)
  const guest = new Guest(postrider)
  await guest.signIn(postrider.user.email, PASSWORD)
  for (let times = 0; times < 20; times++) assert.equal((await guest.open('/live', { method: 'HEAD' })).status, 200)
})
