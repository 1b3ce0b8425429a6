// The log page: one line for each entry, filters, and pages that new lines do not move.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR, MINUTE } from '../../src/base/clock.ts'
import { createLog } from '../../src/base/log.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { asPerson } from '../kit/person.ts'
import { signedIn } from '../kit/signed-in.ts'

const clock = new ManualClock()
const log = createLog({ clock, level: 'debug', form: 'json', write: () => {} })
/** The subjects of the shown lines, which the tests write. */
const subjects = (text: string): string[] => [...text.matchAll(/subject: (\S+?)[,\s<]/g)].map(([, name]) => name!)

test('the log page shows 30 lines, which unfold, and new lines do not move an older page', async () => {
  await using postrider = await startTestAppliance({ clock, log })
  const ann = await signedIn(postrider)
  for (let at = 1; at <= 70; at++) log.info('sandbox_message_received', { subject: `n${at}` })
  const first = (await ann.open('/server/log')).text
  assert.equal(first.match(/<details id="line-/g)?.length, 30)
  assert.match(first, /<summary>[^]*?The sandbox received a message[^]*?<\/summary>\s*<dl class="facts">/)
  const older = /href="([^"]+)" rel="next"/.exec(first)![1]!.replaceAll('&amp;', '&')
  clock.leap(MINUTE)
  for (let at = 1; at <= 40; at++) log.info('sandbox_message_received', { subject: `new${at}` })
  const last = Number(subjects(first).at(-1)!.slice(1))
  assert.equal(subjects((await ann.open(older)).text)[0], `n${last - 1}`)
})

test('the log page searches text and fields, and filters by level and time', async () => {
  await using postrider = await startTestAppliance({ clock, log })
  const ann = await signedIn(postrider)
  log.warn('certificate_order_failed', { subject: 'old', name: 'mx.here.test', nested: { reason: 'Port 80 closed' } })
  clock.leap(HOUR)
  log.info('sandbox_message_received', { subject: 'fresh' })
  log.error('server_stopped', { subject: 'worst<b>' })
  const found = async (query: string) => subjects((await ann.open(`/server/log?${query}`)).text)
  assert.deepEqual(await found('q=port+80+CLOSED'), ['old'])
  assert.deepEqual(await found('q=CERTIFICATE_order'), ['old'])
  assert.deepEqual(await found('level=warn&q=mx.here.test'), ['old'])
  assert.deepEqual(await found('level=error'), ['worst&lt;b&gt;'])
  assert.ok((await found('span=15m')).includes('fresh') && !(await found('span=15m')).includes('old'))
  assert.match((await ann.open('/server/log?q=nowhere')).text, /No lines match these filters/)
  assert.equal((await ann.open('/server/log?level=nonsense&span=x&at=-1&cursor=x')).status, 200)
  for (const filter of ['filter[level]=loud', 'filter[from]=yesterday', 'filter[color]=red'])
    assert.equal((await asPerson(postrider, postrider.user, `/server/log?${filter}`)).status, 400, filter)
})

test('a flood of lines does not displace warnings and errors', () => {
  const own = createLog({ clock, level: 'info', form: 'json', write: () => {} })
  own.error('internal_error', { id: 'the one' })
  for (let at = 0; at < 2000; at++) own.info('sandbox_message_received')
  const kept = own.recent!()
  assert.equal(kept.length, 501)
  assert.equal(kept[0]?.fields['id'], 'the one')
  assert.deepEqual(
    kept.map(({ line }) => line),
    kept.map(({ line }) => line).toSorted((a, b) => a - b),
  )
})
