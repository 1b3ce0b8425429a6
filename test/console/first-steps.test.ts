// The first steps on the overview: each is seen to be done, and when all are, nothing is said any more.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordCards } from '../../src/domains/page-records.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { Guest } from '../kit/guest.ts'
import { givePassword } from '../kit/person.ts'
import { until } from '../kit/until.ts'

const PASSWORD = 'a long enough password'

test('domain, program, first mail, sign-in and backup, each with its way until it is done', async () => {
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
  assert.doesNotMatch(first.list, /Send me a test mail/, 'nothing can be sent yet')
  assert.ok(!first.done.includes('Verify a domain') && !first.done.includes('Make a backup'))
  // The kit's user has a token.
  assert.deepEqual(first.done, ['Connect a program'])

  await postrider.activeDomain('here.test')
  const sendable = await steps()
  assert.deepEqual(sendable.done, ['Verify a domain', 'Connect a program'])
  const sent = await ann.send(await ann.open('/'), 'test')
  assert.match(sent.path, /^\/mail\/[\w-]+/)
  assert.match(sent.text, /A first mail from Postrider/)
  await until(async () => {
    postrider.clock.advance(1000)
    return (await steps()).done.includes('Deliver a first mail')
  }, 'the first mail')
})

test('of a domain that was never checked no page says that DNS did not answer', async () => {
  const domain = (checked: string | null) => ({
    type: 'domains',
    id: '1',
    attributes: { name: 'here.test', checked_at: checked },
    relationships: {},
  })
  const attributes = { record_type: 'SPF', name: 'here.test', value: 'v=spf1 -all', required: true, verified: false }
  const record = { type: 'dns-records', id: '2', attributes: { ...attributes, ttl: 300 }, relationships: {} }
  const shown = async (checked: string | null): Promise<string> =>
    String(await recordCards(domain(checked) as never, [record as never]))
  assert.match(await shown('2026-01-01T00:00:00.000Z'), /DNS did not answer/)
  assert.doesNotMatch(await shown(null), /Found|did not answer/)
})

test('a domain’s records: what is missing first and unfolded, as providers ask for it, with a zone file and a mail', async () => {
  await using postrider = await startTestAppliance()
  await givePassword(postrider, postrider.user.email, PASSWORD)
  const ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  const domain = await postrider.activeDomain('here.test')
  postrider.publish(domain, ({ record_type }) => record_type !== 'SPF')
  await ann.send(await ann.open('/domains/here.test'), 'check')
  const { text } = await ann.open('/domains/here.test')
  assert.match(text, /Required <span class="soft">2 of 3 found<\/span>/)
  const cards = [...text.matchAll(/<details class="panel record"([^>]*)>([^]*?)<\/details>/g)]
  const [first] = cards
  assert.match(first![2]!, /SPF of the return path/)
  assert.match(first![1]!, /open/)
  assert.match(first![2]!, /<dt>Host<\/dt>\s*<dd>\s*<code[^>]*>bounce<\/code>/)
  assert.match(first![2]!, /<dt>Found<\/dt>\s*<dd>nothing<\/dd>/)
  const folded = cards.filter(([, attributes]) => !/open/.test(attributes!))
  assert.ok(folded.length >= 2, 'what is found is folded')
  const mx = cards.find(([, , body]) => /Return path \(MX\)/.test(body!))!
  assert.match(mx[2]!, /<dt>Priority<\/dt>\s*<dd>\s*<code[^>]*>10<\/code>/)
  assert.match(text, /href="mailto:\?subject=DNS%20records%20of%20here\.test&amp;body=[^"]*bounce\.here\.test/)
  assert.match(text, /id="zone">[^<]*bounce\.here\.test\. 3600 IN MX 10 /)
})
