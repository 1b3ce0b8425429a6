import assert from 'node:assert/strict'
import { chmodSync, chownSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { builtFrom, installed } from '../../src/base/installed.ts'
import { temporaryDirectory } from '../kit/directory.ts'

describe('a file next to the executable', () => {
  let place: string
  const executable = (): string => join(place, 'bin/postrider')
  const file = (): string => join(place, 'lib/postrider/addon')

  beforeEach(() => {
    place = temporaryDirectory('installed')
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

  test('is not used if other users can write it, its directory or the directory above', () => {
    for (const path of ['lib', 'lib/postrider', 'lib/postrider/addon']) {
      for (const others of [0o020, 0o002]) {
        chmodSync(join(place, path), 0o755 | others)
        assert.equal(installed('addon', executable()), undefined, `${path} ${others.toString(8)}`)
      }
      chmodSync(join(place, path), 0o755)
    }
    assert.equal(installed('addon', executable()), file())
  })

  test('is not used, without an error, if the executable is not accessible', () => {
    rmSync(executable())
    assert.equal(installed('addon', executable()), undefined)
    assert.equal(installed('addon', join(executable(), 'below/a/file')), undefined)
  })

  test('is not used through a link', () => {
    rmSync(file())
    writeFileSync(join(place, 'elsewhere'), 'x')
    symlinkSync(join(place, 'elsewhere'), file())
    assert.equal(installed('addon', executable()), undefined)
  })

  test('is not used if its owner is neither root nor the owner of the executable', (t) => {
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

test('has no origin if Postrider runs from its sources', () => assert.equal(builtFrom(), null))
