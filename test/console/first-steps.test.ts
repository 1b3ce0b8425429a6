// Tests the first steps on the overview: each step is detected when it is done, and the panel then disappears.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordCards } from '../../src/domains/page-records.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { Guest } from '../kit/guest.ts'
import { givePassword } from '../kit/person.ts'
import { until } from '../kit/until.ts'

const PASSWORD = 'a long enough password'

test('lists domain, application, first email, sign-in and backup until each step is done', async () => {
  await using postrider = await startTestAppliance({ exchanger: testExchanger(), routes: ['owner.test'] })
  await givePassword(postrider, postrider.user.email, PASSWORD)
  const ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  const steps = async () => {
    const { text } = await ann.open('/')
    const list = /<section class="panel steps">([^]*?)<\/section>/.exec(text)?.[1] ?? ''
    return {
      list,
      done: [...list.matchAll(/class="done-step">[^]*?<strong>([^<]+)</g)].map(([, name]) => name),
    }
  }
  const first = await steps()
  assert.match(first.list, /href="\/domains\/new"/)
  assert.doesNotMatch(first.list, /Send me a test email/, 'nothing can be sent yet')
  assert.ok(!first.done.includes('Verify a domain') && !first.done.includes('Make a backup'))
  // The kit's user has a token.
  assert.deepEqual(first.done, ['Connect an application'])

  await postrider.activeDomain('here.test')
  const sendable = await steps()
  assert.deepEqual(sendable.done, ['Verify a domain', 'Connect an application'])
  const sent = await ann.send(await ann.open('/'), 'test')
  assert.match(sent.path, /^\/mail\/[\w-]+/)
  assert.match(sent.text, /Your first email from Postrider/)
  await until(async () => {
    postrider.clock.advance(1000)
    return (await steps()).done.includes('Send your first email')
  }, 'the first mail')
  const { list } = await steps()
  assert.match(list, /<li id="step-2" class="done-step">/)
  assert.match(list, new RegExp(`Delivered\\. <a href="${sent.path.split('?')[0]}">`))
})

test('pages that need a domain lead users without one to the domain form', async () => {
  await using postrider = await startTestAppliance()
  await givePassword(postrider, postrider.user.email, PASSWORD)
  const ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  const pages = ['/webhooks', '/agents', '/audiences', '/inboxes']
  const leading = async (): Promise<string[]> => {
    const found: string[] = []
    for (const path of pages)
      if (/<a class="button" href="\/domains\/new">Add a domain first<\/a>/.test((await ann.open(path)).text))
        found.push(path)
    return found
  }
  assert.deepEqual(await leading(), pages)
  await postrider.activeDomain('here.test')
  assert.deepEqual(await leading(), [])
})

test('does not report a failed DNS lookup for a domain that was never checked', async () => {
  const domain = (checked: string | null) => ({
    type: 'domains',
    id: '1',
    attributes: { name: 'here.test', checked_at: checked },
    relationships: {},
  })
  const attributes = { record_type: 'SPF', name: 'here.test', value: 'v=spf1 -all', required: true, verified: false }
  const record = { type: 'dns-records', id: '2', attributes: { ...attributes, ttl: 300 }, relationships: {} }
  const shown = async (checked: string | null): Promise<string> =>
    String(await recordCards(domain(checked) as never, [record as never], []))
  assert.match(await shown('2026-01-01T00:00:00.000Z'), /the DNS lookup failed/)
  assert.doesNotMatch(await shown(null), /Found|lookup failed/)
})

test('the DNS page lists missing records first, and offers a zone file and an email', async () => {
  await using postrider = await startTestAppliance()
  await givePassword(postrider, postrider.user.email, PASSWORD)
  const ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  const domain = await postrider.activeDomain('here.test')
  postrider.publish(domain, ({ record_type }) => record_type !== 'SPF')
  await ann.send(await ann.open('/domains/here.test'), 'check')
  const { text } = await ann.open('/domains/here.test')
  assert.match(text, /Required <span class="soft">2 of 3 found<\/span>/)
  const cards = [...text.matchAll(/<details\s+id="record-[\w-]+"\s+class="panel record ([^>]*)>([^]*?)<\/details>/g)]
  const [first] = cards
  assert.match(first![2]!, /SPF of the return path/)
  assert.match(first![1]!, /open/)
  assert.match(first![2]!, /<dt>Host<\/dt>\s*<dd>\s*<code[^>]*>bounce<\/code>/)
  assert.match(first![2]!, /<dt>Found<\/dt>\s*<dd><div>no record<\/div><\/dd>/)
  const folded = cards.filter(([, attributes]) => !/open/.test(attributes!))
  assert.ok(folded.length >= 2, 'what is found is folded')
  assert.ok(
    folded.every(([, attributes]) => attributes!.startsWith('found"')),
    'a found record has a tick',
  )
  assert.ok(!first![1]!.startsWith('found'))
  const mx = cards.find(([, , body]) => /Return path \(MX\)/.test(body!))!
  assert.match(mx[2]!, /<dt>Priority<\/dt>\s*<dd>\s*<code[^>]*>10<\/code>/)
  assert.match(text, /href="mailto:\?subject=DNS%20records%20for%20here\.test&amp;body=[^"]*bounce\.here\.test/)
  const [, zone = ''] = /id="zone">([^<]*)/.exec(text) ?? []
  assert.match(zone, /^bounce\.here\.test\. 3600 IN TXT /)
  assert.doesNotMatch(zone, / IN MX |_domainkey/, 'only what is missing')
})
