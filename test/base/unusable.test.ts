import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { unusableSentence, whyUnusable, type Unusable } from '../../src/base/unusable.ts'
import { Commands, sentenceOf } from '../commands/command.ts'

const dir = mkdtempSync(join(tmpdir(), 'postrider-unusable-'))
after(() => rmSync(dir, { recursive: true, force: true }))
const coded = (code: string): Error => Object.assign(new Error(code), { code })

describe('why a place cannot be used (C5)', () => {
  for (const [code, why] of [
    ['EROFS', 'read-only'],
    ['EACCES', 'not ours'],
    ['EPERM', 'not ours'],
    ['ENOSPC', 'full'],
    ['EDQUOT', 'full'],
    ['SQLITE_FULL', 'full'],
    ['EIO', undefined],
    ['EMFILE', undefined],
    // SQLite says so without a free descriptor too, and this place can be used.
    ['SQLITE_CANTOPEN', undefined],
    ['SQLITE_READONLY_DIRECTORY', undefined],
  ] as const)
    test(`${code} is ${why ?? 'something else'}`, () => assert.equal(whyUnusable(coded(code), dir), why))

  const words: Record<Unusable, [outside: RegExp, image: RegExp]> = {
    'read-only': [/read-only: .*remount,rw/, /^The directory mounted at \S+ is mounted read-only: .*":ro"/],
    'not ours': [
      /may not be used by this user: .*sudo/,
      /^The directory mounted at .*7, .*user 10025: .*chown -R 10025:10025/,
    ],
    open: [
      /^Other users may read \S+: close it with "chmod 700 \//,
      /the directory mounted at .*: on the host, .*"chmod 700"/,
    ],
    full: [/is full: free/, /^The disk of the directory mounted at \S+ is full: .* on the host/],
  }
  for (const [why, [outside, image]] of Object.entries(words) as [Unusable, [RegExp, RegExp]][])
    test(`${why}: a sentence for a machine, and one for the image, which has neither sudo nor the path of the host`, () => {
      const standing = { user: 10025, owner: 7 }
      assert.match(unusableSentence(why, dir, { ...standing, image: false }), outside)
      const said = unusableSentence(why, dir, { ...standing, image: true })
      assert.match(said, image)
      assert.doesNotMatch(said, /sudo|chmod 700 \//)
    })

  test('a file of another user in the image is named, not its directory', () => {
    const file = join(dir, 'postrider.db')
    writeFileSync(file, '')
    const said = unusableSentence('not ours', file, { image: true, user: 10025, owner: 0 })
    assert.ok(said.startsWith(`${file} belongs to user 0, and Postrider runs as user 10025: on the host, `), said)
  })

  test('a path that cannot be looked at has its sentence too', () => {
    const circle = join(dir, 'circle')
    symlinkSync(circle, circle)
    for (const image of [false, true])
      assert.match(unusableSentence('not ours', circle, { image }), /circle|mounted at/)
  })

  test('a data directory that is mounted read-only is called so by serve and by commands', async (t) => {
    const place = join(dir, 'mounted')
    const mount = (...args: string[]): boolean => spawnSync('mount', args, { stdio: 'ignore' }).status === 0
    const commands = new Commands(dir)
    spawnSync('mkdir', ['-m', '700', place])
    if (!mount('-t', 'tmpfs', '-o', 'size=64m,mode=700', 'tmpfs', place)) return t.skip('nothing can be mounted here')
    try {
      const config = join(dir, 'here.toml')
      writeFileSync(config, `hostname = "mx.here.test"\ndata_dir = ${JSON.stringify(place)}\n`)
      assert.equal((await commands.run(['--config', config, 'user', 'add', 'me@here.test'])).code, 0)
      assert.ok(mount('-o', 'remount,ro', place))
      for (const argv of [['serve'], ['user', 'add', 'you@here.test']])
        assert.match(sentenceOf(await commands.run(['--config', config, '--json', ...argv])), /mounted read-only/)
    } finally {
      await commands.close()
      spawnSync('umount', [place])
    }
  })
})
