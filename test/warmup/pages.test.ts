// The pages of warm-up, for operators.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY } from '../../src/base/clock.ts'
import { closeDays } from '../../src/warmup/judge.ts'
import { DailyLimits } from '../../src/warmup/limits.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { PASSWORD, signedIn } from '../kit/signed-in.ts'

const SOURCE = '192.0.2.1'
const OTHER = 'bob@other.test'
const HOSTILE = '<script>alert(1)</script>'
const clock = new ManualClock()
const postrider = ofFile(() => startTestAppliance({ clock, config: { delivery: { source: [SOURCE] } } }))
let ann: Guest

setUp(async () => {
  const { deps } = postrider.appliance
  const warmup = new DailyLimits({ ...deps, noticed: () => {} })
  const now = clock.now()
  await deps.store.write((tx) => {
    const pair = { source: SOURCE, receiver: 'Google' }
    warmup.take(tx, pair, { bulk: true, wanted: 40, now })
    for (let n = 0; n < 3; n++)
      warmup.note(tx, pair, { kind: 'deferred', text: `421 ${HOSTILE}`, mailDay: Math.floor(now / DAY), now })
    warmup.take(tx, { source: SOURCE, receiver: 'there.test' }, { bulk: true, wanted: 16, now })
  })
  ann = await signedIn(postrider)
})

const words = (html: string): string =>
  html
    .replace(/^[^]*<main/, '')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
const pathOf = async (receiver: string): Promise<string> =>
  `/server/warmup/${(await postrider.api('GET', `/warmups?filter[receiver]=${receiver}`)).body.data[0].id}`

test('lists pairs with state, daily limit and use, and finds them by a search', async () => {
  const { text } = await ann.open('/server/warmup')
  assert.match(
    words(text),
    /All providers 192\.0\.2\.1 warming up 300 56 0 Google 192\.0\.2\.1 holding 50 40 0 1 of 40 recipients were deferred/,
  )
  assert.match(words(text), /Google 192\.0\.2\.1 holding 50 40 0 1 of 40 recipients were deferred \(2\.5%/)
  assert.match(words(text), /there\.test 192\.0\.2\.1 warming up 20 16 0/)
  assert.ok(!text.includes(HOSTILE))
  const found = words((await ann.open('/server/warmup?q=there')).text)
  assert.ok(found.includes('there.test') && !found.includes('Google'))
  assert.match((await ann.open('/server/warmup?q=nobody')).text, /No results/)
})

test('shows the days of a pair, sets its limit, resumes the schedule and restarts it', async () => {
  const here = await pathOf('there.test')
  clock.leap(DAY)
  await closeDays({ ...postrider.appliance.deps, noticed: () => {} })
  await ann.signIn(postrider.user.email, PASSWORD)
  const page = await ann.open(here)
  assert.match(words(page.text), /Step 2/)
  assert.match(words(page.text), /2026-01-15 20 16 0 0 0 0 good/)
  const fixed = await ann.send(page, 'fix', { daily_limit: '5,000' })
  assert.match(fixed.text, /role="status">there\.test from 192\.0\.2\.1: the limit is now 5000 recipients per day/)
  assert.match(words(fixed.text), /manual An operator set the daily limit/)
  for (const wrong of ['', '-5', 'many']) {
    const refused = await ann.send(fixed, 'fix', { daily_limit: wrong })
    assert.match(words(refused.text), /must be a whole number|must be an integer|must be at least 0/, wrong)
  }
  const released = await ann.send(fixed, 'release')
  assert.match(released.text, /role="status">there\.test from 192\.0\.2\.1: automatic warm-up resumed/)
  const skipped = await ann.send(released, 'skip')
  assert.match(words(skipped.text), /unlimited An operator removed the daily limit/)
  const again = await ann.send(skipped, 'restart')
  assert.match(words(again.text), /Step 1/)
})

test('shows on the pages that warm-up is off', async () => {
  postrider.config.warmup.enabled = false
  assert.match(
    words((await ann.open('/server/warmup')).text),
    /Google 192\.0\.2\.1 holding no limit 0 0 Warm-up is off/,
  )
  postrider.config.warmup.enabled = true
})

test('only operators can open the pages', async () => {
  const bob = await signedIn(postrider, OTHER)
  for (const path of ['/server/warmup', await pathOf('Google')]) assert.equal((await bob.open(path)).status, 404)
})
