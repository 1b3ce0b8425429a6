import assert from 'node:assert/strict'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { builtFrom, installed } from '../../src/base/installed.ts'

describe('a file that is installed beside the executable (E7)', () => {
  let place: string
  const executable = (): string => join(place, 'bin/postrider')
  const file = (): string => join(place, 'lib/postrider/addon')

  beforeEach(() => {
    place = mkdtempSync(join(tmpdir(), 'postrider-installed-'))
    for (const folder of ['bin', 'lib', 'lib/postrider']) mkdirSync(join(place, folder), { mode: 0o755 })
    for (const each of [executable(), file()]) writeFileSync(each, 'x', { mode: 0o644 })
  })
  afterEach(() => rmSync(place, { recursive: true }))

  test('is found in ../lib/postrider', () => {
    assert.equal(installed('addon', executable()), file())
    assert.equal(installed('other', executable()), undefined)
    rmSync(join(place, 'lib'), { recursive: true })
    assert.equal(installed('addon', executable()), undefined)
  })

  test('is not taken where others may write it, its folder or the folder above', () => {
    for (const path of ['lib', 'lib/postrider', 'lib/postrider/addon']) {
      for (const others of [0o020, 0o002]) {
        chmodSync(join(place, path), 0o755 | others)
        assert.equal(installed('addon', executable()), undefined, `${path} ${others.toString(8)}`)
      }
      chmodSync(join(place, path), 0o755)
    }
    assert.equal(installed('addon', executable()), file())
  })

  test('is not taken where the executable cannot be looked at, and ends nothing', () => {
    rmSync(executable())
    assert.equal(installed('addon', executable()), undefined)
    assert.equal(installed('addon', join(executable(), 'below/a/file')), undefined)
  })

  test('is not taken through a link', () => {
    rmSync(file())
    writeFileSync(join(place, 'elsewhere'), 'x')
    symlinkSync(join(place, 'elsewhere'), file())
    assert.equal(installed('addon', executable()), undefined)
  })

  test('is not taken where another user than root and the owner of the executable has put it', (t) => {
    if (process.getuid!() !== 0) return t.skip('only root can give files away')
    for (const path of ['lib', 'lib/postrider', 'lib/postrider/addon']) {
      chownSync(join(place, path), 65534, 65534)
      assert.equal(installed('addon', executable()), undefined, path)
      chownSync(join(place, path), 0, 0)
    }
    for (const path of ['bin/postrider', 'lib', 'lib/postrider', 'lib/postrider/addon'])
      chownSync(join(place, path), 65534, 65534)
    assert.equal(installed('addon', executable()), file())
  })
})

test('from its sources the program was built from nothing (E8)', () => assert.equal(builtFrom(), null))
