// How a backup ends before its time: by a signal, and what one that was killed left is removed after a day.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import Database from 'better-sqlite3'
import { DAY, SECOND } from '../../src/base/clock.ts'
import { noteFolder, removeNoted } from '../../src/store/leavings.ts'
import { until } from '../kit/until.ts'
import { start } from '../commands/command.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-backup-ends-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const dataDir = join(folder, 'data')
mkdirSync(dataDir, { mode: 0o700 })
const env = { POSTRIDER_DATA_DIR: dataDir, POSTRIDER_CONFIG: '' }

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  test(`a backup that ${signal} ends leaves nothing beside its target, and ends by it (D118, B4)`, async () => {
    assert.equal(await start(['user', 'list'], folder, env).ended, 0)
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

test('what a backup that was killed left goes after a day; nothing else does (D118, B4)', () => {
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
