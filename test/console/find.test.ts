// Find: pages and named things by their names, each person's own; and the keys.
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

/** Where the results lead, by their names as they stand in the page. */
async function found(guest: Guest, words: string): Promise<Record<string, string>> {
  const { text } = await guest.open(`/find?q=${encodeURIComponent(words)}`)
  const part = /<div id="found" class="found">([^]*?)<\/div>/.exec(text)![1]!
  const links = part.matchAll(/<a href="([^"]+)">[^]*?<span>([^]*?)<\/span>/g)
  return Object.fromEntries([...links].map(([, to, name]) => [name, to]))
}

test('without words every page of the person is named, and what is often begun', async () => {
  const all = await found(ann, '')
  assert.deepEqual(
    [all['Overview'], all['Queue'], all['New campaign'], all['Invite person']],
    ['/', '/queue', '/campaigns/new', '/people/new'],
  )
  const others = await found(bob, '')
  assert.equal(others['Mail'], '/mail')
  assert.deepEqual([others['Queue'], others['Invite person']], [undefined, undefined], 'for operators')
})

test('things are found by a part of their name, in any case, and only one’s own', async () => {
  const hits = await found(ann, 'NEWS')
  assert.match(hits['&lt;b&gt;&quot;News&quot; &amp; more'] ?? '', /^\/audiences\/[\w-]+$/)
  assert.equal(hits['Search mail for “NEWS”'], '/mail?q=NEWS')
  assert.deepEqual(Object.keys(await found(bob, 'news')), ['Search mail for “news”'])
  assert.equal((await found(ann, 'here.t'))['here.test'], '/domains/here.test')
  assert.equal((await found(bob, 'here.t'))['here.test'], undefined)
})

test('words of any length and kind are only words', async () => {
  for (const words of ['x'.repeat(5000), '%_\\', '</div><script>', '\u0000']) {
    const { status, text } = await ann.open(`/find?q=${encodeURIComponent(words)}`)
    assert.equal(status, 200)
    assert.doesNotMatch(text, /<\/div><script>/)
  }
})

test('each page of the menu has a key of its own, and the page of keys names them all', async () => {
  const { text } = await ann.open('/keys')
  const inMenu = [...text.matchAll(/data-key="(.)"/g)].map(([, key]) => key)
  assert.ok(inMenu.length > 10)
  assert.equal(new Set(inMenu).size, inMenu.length)
  for (const key of inMenu) assert.match(text, new RegExp(`<kbd>g ${key}</kbd>`))
})
