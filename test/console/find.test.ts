// Tests the search for pages and resources by name, per user, and the keyboard shortcuts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestAppliance } from '../kit/appliance.ts'
import { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { givePassword } from '../kit/person.ts'

const PASSWORD = 'a long enough password'
const NAME = '<b>"News" & more'
let ann: Guest
let bob: Guest

const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'], otherDomains: ['other.test'] }))

setUp(async () => {
  const [domain] = (await postrider.api('GET', '/domains')).body.data
  await postrider.api('POST', '/audiences', {
    data: {
      type: 'audiences',
      attributes: { name: NAME },
      relationships: { domain: { data: { type: 'domains', id: domain.id } } },
    },
  })
  const guests: Guest[] = []
  for (const { email } of [postrider.user, postrider.other]) {
    await givePassword(postrider, email, PASSWORD)
    const guest = new Guest(postrider)
    await guest.signIn(email, PASSWORD)
    guests.push(guest)
  }
  ;[ann, bob] = guests as [Guest, Guest]
})

/** The links of the results, by the names that the page shows. */
async function found(guest: Guest, words: string): Promise<Record<string, string>> {
  const { text } = await guest.open(`/find?q=${encodeURIComponent(words)}`)
  const part = /<div id="found" class="found">([^]*?)<\/div>/.exec(text)![1]!
  const links = part.matchAll(/<a href="([^"]+)">[^]*?<span>([^]*?)<\/span>/g)
  return Object.fromEntries([...links].map(([, to, name]) => [name, to]))
}

test('an empty search lists every page of the user and common actions', async () => {
  const all = await found(ann, '')
  assert.deepEqual(
    [all['Overview'], all['Queue'], all['New campaign'], all['Invite user']],
    ['/', '/queue', '/campaigns/new', '/people/new'],
  )
  const others = await found(bob, '')
  assert.equal(others['Emails'], '/mail')
  assert.deepEqual([others['Queue'], others['Invite user']], [undefined, undefined], 'for operators')
})

test('finds own resources by a part of their name, ignoring case', async () => {
  const hits = await found(ann, 'NEWS')
  assert.match(hits['&lt;b&gt;&quot;News&quot; &amp; more'] ?? '', /^\/audiences\/[\w-]+$/)
  assert.equal(hits['Search emails for “NEWS”'], '/mail?q=NEWS')
  assert.deepEqual(Object.keys(await found(bob, 'news')), ['Search emails for “news”'])
  assert.equal((await found(ann, 'here.t'))['here.test'], '/domains/here.test')
  assert.equal((await found(bob, 'here.t'))['here.test'], undefined)
})

test('treats queries of any length and kind as plain text', async () => {
  for (const words of ['x'.repeat(5000), '%_\\', '</div><script>', '\u0000']) {
    const { status, text } = await ann.open(`/find?q=${encodeURIComponent(words)}`)
    assert.equal(status, 200)
    assert.doesNotMatch(text, /<\/div><script>/)
  }
})

test('each menu page has a keyboard shortcut, and the shortcut page lists them all', async () => {
  const { text } = await ann.open('/keys')
  const inMenu = [...text.matchAll(/data-key="(.)"/g)].map(([, key]) => key)
  assert.ok(inMenu.length > 10)
  assert.equal(new Set(inMenu).size, inMenu.length)
  for (const key of inMenu) assert.match(text, new RegExp(`<kbd>g ${key}</kbd>`))
})
