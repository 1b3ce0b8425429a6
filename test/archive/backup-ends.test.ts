// A backup that is stopped by a signal, and the cleanup after one that was killed.
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { DAY, SECOND } from '../../src/base/clock.ts'
import { noteFolder, removeNoted } from '../../src/store/leftovers.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makeInstallation } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { start } from '../commands/command.ts'

const folder = temporaryDirectory('backup-ends')

const dataDir = join(folder, 'data')
mkdirSync(dataDir, { mode: 0o700 })
makeInstallation(dataDir)
const env = { POSTRIDER_DATA_DIR: dataDir, POSTRIDER_CONFIG: '' }

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  test(`a backup stopped by ${signal} leaves no files next to its target, and exits by this signal (D118)`, async () => {
    const large = new Database(join(dataDir, 'postrider.db'))
    large.exec('create table if not exists ballast (octets blob)')
    const insert = large.prepare('insert into ballast values (zeroblob(4000))')
    large.transaction(() => {
      for (let n = 0; n < 30_000; n++) insert.run()
    })()
    large.close()
    const beside = join(folder, signal)
    mkdirSync(beside)
    const backup = start(['backup', join(beside, 'b.zip')], folder, env)
    await until(() => readdirSync(beside).length > 0, 'the copy to begin')
    backup.child.kill(signal)
    assert.equal(await backup.ended, signal)
    assert.deepEqual(readdirSync(beside), [])
  })

test('deletes the leftovers of a killed backup after a day, and no other files (D118)', () => {
  const beside = join(folder, 'beside')
  mkdirSync(beside)
  const now = Date.now()
  for (const name of ['.postrider-backup-oldone', '.postrider-backup-newone', '.something-Abcdef', 'letters']) {
    mkdirSync(join(beside, name))
    writeFileSync(join(beside, name, 'postrider.db'), '')
    const at = (now - (name.endsWith('newone') ? DAY / 2 : 2 * DAY)) / SECOND
    for (const each of [join(name, 'postrider.db'), name]) utimesSync(join(beside, each), at, at)
  }
  noteFolder(dataDir, beside)
  removeNoted(dataDir, now)
  assert.deepEqual(readdirSync(beside).toSorted(), ['.postrider-backup-newone', '.something-Abcdef', 'letters'])
})
