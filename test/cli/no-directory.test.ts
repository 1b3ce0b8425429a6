// A data directory that cannot be created: each command reports it in one sentence and exits.
import assert from 'node:assert/strict'
import { existsSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { makeDirectory } from '../../src/base/durable.ts'
import { start } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makeInstallation } from '../kit/installation.ts'

const folder = temporaryDirectory('no-directory')

const backup = join(folder, 'backup.zip')
before(async () => {
  const env = { POSTRIDER_DATA_DIR: makeInstallation(join(folder, 'data')) }
  assert.equal(await start(['backup', backup], folder, env).ended, 0)
})

for (const words of [['serve'], ['restore', backup], ['backup', 'now'], ['user', 'list']])
  test(`"${words.join(' ').replace(backup, 'FILE')}" reports a data directory that cannot be created in one sentence`, async (t) => {
    // mkdir(2) fails with ENOENT there although the parent exists.
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

test('creates a directory with its parents for the owner only, keeps an existing one, and rejects a file', () => {
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
