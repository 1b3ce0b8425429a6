// The first steps on the overview: each is seen to be done, and when all are, nothing is said any more.
import assert from 'node:assert/strict'
import { test } from 'node:test'
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
