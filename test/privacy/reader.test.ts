// Erasures while another process reads the database.
import assert from 'node:assert/strict'
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { join } from 'node:path'
import { SECOND } from '../../src/base/clock.ts'
import { takeLock } from '../../src/store/lock.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { filesWith } from '../kit/files-with.ts'
import { until } from '../kit/until.ts'

test('an erasure waits for a reader without blocking the server, and completes within a minute after it (D118)', async (t) => {
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

test('an erasure waits for a backup in progress, logs it, and completes within a minute after the backup', async (t) => {
  const lines: string[] = []
  const postrider = await startTestAppliance({ logged: { level: 'warn', lines } })
  t.after(() => postrider.stop())
  const { store } = postrider.appliance.deps
  await postrider.activeDomain('here.test')
  const mail = { from: 'me@here.test', to: 'ann@there.test', subject: 'Hello', html: '<p>Dear ann@there.test</p>' }
  assert.equal((await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))).status, 201)
  await until(() => store.first(raw(`select 1 from deliveries where status = 'active'`)) === undefined, 'the attempt')
  const copy = join(postrider.dataDir, '.postrider-backup-Abc123')
  mkdirSync(copy)
  writeFileSync(join(copy, 'postrider.db'), 'Dear ann@there.test')
  const release = takeLock(postrider.dataDir, 'backup.lock')
  assert.equal((await postrider.api('DELETE', '/recipients/ann@there.test/forget')).status, 202)
  await until(() => lines.find((line) => line.includes('"erasure_waiting"')), 'the line of the log')
  assert.match(lines.join(''), /a backup in progress/)
  assert.equal((await postrider.raw('/health')).status, 200)
  release?.()
  for (let n = 0; n < 60; n++) postrider.clock.advance(SECOND)
  await until(
    () => store.first(raw(`select 1 from privacy_requests where status = 'pending'`)) === undefined,
    'the end',
  )
  assert.deepEqual(await filesWith(postrider.dataDir, 'ann@there.test'), [])
})

test('reports a write-ahead log above 256 MB in the log and in /metrics, with the age of the oldest reader', async (t) => {
  const lines: string[] = []
  const postrider = await startTestAppliance({ logged: { level: 'warn', lines } })
  t.after(() => postrider.stop())
  const file = join(postrider.dataDir, 'postrider.db')
  const reader = new Database(file, { readonly: true })
  t.after(() => reader.close())
  reader.exec('begin')
  reader.prepare('select count(*) from outbound_emails').get()
  await postrider.activeDomain('here.test')
  // Bytes after the last commit are not part of the log: SQLite overwrites them.
  truncateSync(`${file}-wal`, 300 * 1024 * 1024)
  const said = (): string | undefined => lines.find((line) => line.includes('"wal_file_large"'))
  await until(() => {
    postrider.clock.advance(SECOND)
    return said()
  }, 'the line of the log')
  const { bytes, seconds } = JSON.parse(said()!) as { bytes: number; seconds: number }
  assert.equal(bytes, 300 * 1024 * 1024)
  assert.ok(seconds > 0)
  const metrics = String(await fetch(`${postrider.url}/metrics`).then((answer) => answer.text()))
  assert.match(metrics, /^postrider_storage_bytes\{kind="log"\} 314572800$/m)
  assert.match(metrics, /^postrider_wal_held_seconds [1-9]/m)
})
