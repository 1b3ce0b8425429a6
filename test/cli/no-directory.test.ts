// A data directory that cannot be made: each command says so in a sentence and ends.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { makeDirectory } from '../../src/base/durable.ts'
import { start } from '../commands/command.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-no-directory-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const backup = join(folder, 'backup.zip')
before(async () => {
  for (const words of [
    ['user', 'list'],
    ['backup', backup],
  ])
    assert.equal(await start(words, folder, { POSTRIDER_DATA_DIR: join(folder, 'data') }).ended, 0)
})

for (const words of [['serve'], ['restore', backup], ['backup', 'now'], ['user', 'list']])
  test(`"${words.join(' ').replace(backup, 'FILE')}" below a directory that takes none ends with a sentence`, async (t) => {
    // Where mkdir(2) says ENOENT although the directory above is there.
    if (!existsSync('/proc/self')) return t.skip('there is no /proc here')
    const env = { POSTRIDER_DATA_DIR: '/proc/postrider/data', POSTRIDER_BACKUP_TO: join(folder, 'to') }
    const command = start(words, folder, env)
    try {
      await command.said(/^postrider: .*\/proc\/postrider.*\.\n$/m, 'stderr')
      assert.equal(await command.ended, 1)
    } finally {
      command.child.kill('SIGKILL')
    }
  })

test('a directory is made with its parents, for its owner alone; what is there stays, and a file is refused', () => {
  const deep = join(folder, 'a', 'b', 'c')
  makeDirectory(deep)
  makeDirectory(deep)
  for (const each of [deep, join(folder, 'a')]) assert.equal(statSync(each).mode & 0o777, 0o700)
  const file = join(folder, 'file')
  writeFileSync(file, '')
  assert.throws(() => makeDirectory(file), { code: 'EEXIST' })
  assert.throws(() => makeDirectory(join(file, 'in')), { code: 'ENOTDIR' })
  symlinkSync(join(folder, 'nowhere'), join(folder, 'link'))
  assert.throws(() => makeDirectory(join(folder, 'link', 'in')), { code: 'EEXIST' })
})
