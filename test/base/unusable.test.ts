import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { unusableSentence, whyUnusable, type Unusable } from '../../src/base/unusable.ts'
import { Commands, sentenceOf } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makeInstallation } from '../kit/installation.ts'

const dir = temporaryDirectory('unusable')
const coded = (code: string): Error => Object.assign(new Error(code), { code })

describe('unusable paths', () => {
  for (const [code, why] of [
    ['EROFS', 'read-only'],
    ['EACCES', 'not ours'],
    ['EPERM', 'not ours'],
    ['ENOSPC', 'full'],
    ['EDQUOT', 'full'],
    ['SQLITE_FULL', 'full'],
    ['EIO', undefined],
    ['EMFILE', undefined],
    // SQLite returns this code without a free descriptor, too, and the path is usable.
    ['SQLITE_CANTOPEN', undefined],
    ['SQLITE_READONLY_DIRECTORY', undefined],
  ] as const)
    test(`${code} is ${why ?? 'another error'}`, () => assert.equal(whyUnusable(coded(code), dir), why))

  const words: Record<Unusable, [outside: RegExp, image: RegExp]> = {
    'read-only': [/read-only: .*remount,rw/, /^The directory mounted at \S+ is mounted read-only: .*":ro"/],
    'not ours': [
      /is not accessible to this user: .*sudo/,
      /^The directory mounted at .*7, .*user 10025: .*chown -R 10025:10025/,
    ],
    open: [/^Other users can read \S+: run "chmod 700 \//, /the directory mounted at .*: on the host, .*"chmod 700"/],
    full: [/is full: free/, /^The disk of the directory mounted at \S+ is full: .* on the host/],
  }
  for (const [why, [outside, image]] of Object.entries(words) as [Unusable, [RegExp, RegExp]][])
    test(`${why}: in the image, the sentence names neither sudo nor the path on the host`, () => {
      const standing = { user: 10025, owner: 7 }
      assert.match(unusableSentence(why, dir, { ...standing, image: false }), outside)
      const said = unusableSentence(why, dir, { ...standing, image: true })
      assert.match(said, image)
      assert.doesNotMatch(said, /sudo|chmod 700 \//)
    })

  test('in the image, names a file of another user instead of its directory', () => {
    const file = join(dir, 'postrider.db')
    writeFileSync(file, '')
    const said = unusableSentence('not ours', file, { image: true, user: 10025, owner: 0 })
    assert.ok(said.startsWith(`${file} belongs to user 0, and Postrider runs as user 10025: on the host, `), said)
  })

  test('has a sentence for an inaccessible path', () => {
    const circle = join(dir, 'circle')
    symlinkSync(circle, circle)
    for (const image of [false, true])
      assert.match(unusableSentence('not ours', circle, { image }), /circle|mounted at/)
  })

  test('serve and commands report a data directory that is mounted read-only', async (t) => {
    const place = join(dir, 'mounted')
    const mount = (...args: string[]): boolean => spawnSync('mount', args, { stdio: 'ignore' }).status === 0
    const commands = new Commands(dir)
    spawnSync('mkdir', ['-m', '700', place])
    if (!mount('-t', 'tmpfs', '-o', 'size=64m,mode=700', 'tmpfs', place)) return t.skip('nothing can be mounted here')
    try {
      const config = join(dir, 'here.toml')
      writeFileSync(config, `hostname = "mx.here.test"\ndata_dir = ${JSON.stringify(place)}\n`)
      makeInstallation(place)
      assert.ok(mount('-o', 'remount,ro', place))
      for (const argv of [['serve'], ['user', 'add', 'you@here.test']])
        assert.match(sentenceOf(await commands.run(['--config', config, '--json', ...argv])), /mounted read-only/)
    } finally {
      await commands.close()
      spawnSync('umount', [place])
    }
  })
})
