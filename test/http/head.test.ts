// HEAD uses nothing up: no link that works once, no secret that is shown once, no stream of a live page (RFC 9110
// §9.3.2). For files, see privacy/export.test.ts. For unsubscribe links, see campaigns/pages.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeLink } from '../../src/users/sign-in-links.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { Guest, type Shown } from '../kit/guest.ts'
import { ofFile } from '../kit/of-file.ts'
import { givePassword } from '../kit/person.ts'

const PASSWORD = 'a long enough password'
const postrider = ofFile(() => startTestAppliance())
const isIn = ({ text }: Shown): boolean => !text.includes('name="password"')

test('HEAD does not use up a sign-in link, printed or emailed', async () => {
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

test('HEAD does not use up a secret or a confirmation that a page shows once', async () => {
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
  const made = await guest.send(await guest.open('/tokens/new'), 'add', {
    name: 'a',
    scopes: 'emails:send',
    duration: '1_month',
  })
  assert.match(made.text, /<code class="secret" id="secret">pr_\w+<\/code>/)
  assert.equal(heads, 1)
})

test('HEAD does not count as a live page of a user', async () => {
  await givePassword(postrider, postrider.user.email, PASSWORD)
  const guest = new Guest(postrider)
  await guest.signIn(postrider.user.email, PASSWORD)
  for (let times = 0; times < 20; times++) assert.equal((await guest.open('/live', { method: 'HEAD' })).status, 200)
})
