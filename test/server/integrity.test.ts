// Corruption is reported: /health is degraded and doctor fails until the data is repaired (D206).
import assert from 'node:assert/strict'
import { closeSync, mkdtempSync, openSync, readdirSync, readSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import type { Beside } from '../../src/archive/schedule.ts'
import { besideServer } from '../../src/server/beside.ts'
import { databaseFindings } from '../../src/checks/machine.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { until } from '../kit/until.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))
const settings = temporaryDirectory('integrity')

/** Runs commands next to a server of this data directory, as `serve` does. */
function besideOf(dataDir: string): Beside {
  const file = join(settings, `${basename(dataDir)}.toml`)
  writeFileSync(file, `data_dir = ${JSON.stringify(dataDir)}\n`)
  return besideServer(file, { program: process.execPath, first: [PROGRAM] })
}

const DAY = 86_400_000
const MINUTE = 60_000
const PAGE = 4096

/** Changes a page of a file. Returns a function that restores it. */
function change(file: string, page: number, by: (page: Buffer) => Buffer): () => void {
  const handle = openSync(file, 'r+')
  const before = Buffer.alloc(PAGE)
  readSync(handle, before, 0, PAGE, (page - 1) * PAGE)
  const write = (bytes: Buffer): void => void writeSync(handle, bytes, 0, PAGE, (page - 1) * PAGE)
  write(by(Buffer.from(before)))
  return () => {
    write(before)
    closeSync(handle)
  }
}

const rootOf = (file: string, name: string): number => {
  const database = new Database(file, { readonly: true })
  const { rootpage } = database.prepare('select rootpage from sqlite_schema where name = ?').get(name) as {
    rootpage: number
  }
  database.close()
  return rootpage
}

/** Kinds of corruption that a start does not notice. Each returns a function that restores the database. */
const DAMAGE: Record<string, (file: string) => () => void> = {
  'a table’s page of zeros': (file) => change(file, rootOf(file, 'images'), (page) => page.fill(0)),
  'a table’s page of other bytes': (file) => change(file, rootOf(file, 'contacts'), (page) => page.fill(0xa5)),
  'an index page of other bytes': (file) => change(file, rootOf(file, 'images_by_size'), (page) => page.fill(0x5a)),
  'a page with a wrong count of cells': (file) =>
    change(file, rootOf(file, 'images_by_creation'), (page) => (page.writeUInt16BE(400, 3), page)),
  'a page that points outside of itself': (file) =>
    change(file, rootOf(file, 'images_by_size'), (page) => (page.writeUInt16BE(0xfff0, 1), page)),
  'a list of free pages that leads nowhere': (file) =>
    change(file, 1, (page) => (page.writeUInt32BE(0xffff, 32), page.writeUInt32BE(3, 36), page)),
}

const healthOf = async (postrider: TestAppliance): Promise<{ status: string; reasons?: string[] }> =>
  (await postrider.raw('/health')).body

for (const [name, damage] of Object.entries(DAMAGE))
  test(`doctor fails for ${name}`, async () => {
    const dataDir = mkdtempSync(join(settings, 'data-'))
    await (await startTestAppliance({ dataDir })).stop()
    damage(join(dataDir, 'postrider.db'))
    const [finding] = databaseFindings({ data_dir: dataDir })
    assert.equal(finding?.severity, 'fail')
    assert.match(finding.fix ?? '', /postrider verify/)
  })

test('a start with a corrupt database is degraded', async () => {
  const dataDir = mkdtempSync(join(settings, 'data-'))
  await (await startTestAppliance({ dataDir })).stop()
  DAMAGE['a table’s page of zeros']!(join(dataDir, 'postrider.db'))
  await using postrider = await startTestAppliance({ dataDir, beside: besideOf(dataDir) })
  await until(async () => (await healthOf(postrider)).status === 'degraded', 'the check')
  assert.match((await healthOf(postrider)).reasons!.join(), /The database is corrupt\./)
})

test('finds later corruption within a day, and shows it in /health until the check after the repair', async () => {
  const clock = new ManualClock()
  const dataDir = mkdtempSync(join(settings, 'data-'))
  await using postrider = await startTestAppliance({ clock, dataDir, beside: besideOf(dataDir) })
  assert.equal(databaseFindings(postrider.config)[0]?.severity, 'ok')
  const { store } = postrider.appliance.deps
  const file = join(postrider.dataDir, 'postrider.db')
  assert.ok(store.checkpoint())
  const repair = DAMAGE['an index page of other bytes']!(file)
  clock.leap(DAY)
  await until(async () => (await healthOf(postrider)).status === 'degraded', 'the next check')
  clock.advance(30 * MINUTE)
  assert.equal((await healthOf(postrider)).status, 'degraded')
  repair()
  clock.leap(DAY)
  await until(async () => (await healthOf(postrider)).status === 'ok', 'the check after the repair')
})

test('a server that returns 500 for a missing spool file is degraded', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'], routes: ['there.test'] })
  const html = `<p>${'Hello. '.repeat(60_000)}</p>`
  const attributes = { from: 'ann@here.test', to: 'bob@there.test', subject: 'Large', html }
  const { body } = await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))
  const { spool } = postrider.appliance.deps.store.one(raw<{ spool: string }>('select spool from outbound_bodies'))
  assert.ok(spool)
  assert.equal((await healthOf(postrider)).status, 'ok')
  for (const name of readdirSync(join(postrider.dataDir, 'spool'), { recursive: true, withFileTypes: true }))
    if (name.isFile()) rmSync(join(name.parentPath, name.name))
  const answer = await postrider.api('GET', `/outbound-emails/${body.data.id}/raw`)
  assert.equal(answer.status, 500)
  assert.match((await healthOf(postrider)).reasons!.join(), /spool file is corrupt or missing/)
})
