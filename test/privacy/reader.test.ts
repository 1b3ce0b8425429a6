// Erasures beside another process that reads the database.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { join } from 'node:path'
import { SECOND } from '../../src/base/clock.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { filesWith } from '../kit/files-with.ts'
import { until } from '../kit/until.ts'

test('an erasure beside a reader stops nothing, waits, and ends within a minute after the reader (D118)', async (t) => {
  const postrider = await startTestAppliance()
  t.after(() => postrider.stop())
  const { store } = postrider.appliance.deps
  await postrider.activeDomain('here.test')
  const mail = { from: 'me@here.test', to: 'ann@there.test', subject: 'Hello', html: '<p>Dear ann@there.test</p>' }
  assert.equal((await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))).status, 201)
  await until(() => store.first(raw(`select 1 from deliveries where status = 'active'`)) === undefined, 'the attempt')
  const reader = new Database(join(postrider.dataDir, 'postrider.db'), { readonly: true })
  t.after(() => reader.close())
  reader.exec('begin')
  reader.prepare('select count(*) from outbound_emails').get()
  assert.equal((await postrider.api('DELETE', '/recipients/ann@there.test/forget')).status, 202)
  const later = raw<{ at: number }>(
    `select next_attempt_at as at from privacy_requests where updated_at < next_attempt_at`,
  )
  await until(() => store.first(later), 'the erasure to wait')
  assert.equal((await postrider.raw('/health')).status, 200)
  reader.exec('rollback')
  for (let n = 0; n < 60; n++) postrider.clock.advance(SECOND)
  await until(
    () => store.first(raw(`select 1 from privacy_requests where status = 'pending'`)) === undefined,
    'the end',
  )
  store.checkpoint()
  assert.deepEqual(await filesWith(postrider.dataDir, 'ann@there.test'), [])
})
