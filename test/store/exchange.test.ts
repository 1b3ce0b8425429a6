// The contents of a data directory are exchanged by renames. After an interruption at any of them, the next command
// continues: no file is lost or mixed up, and a partial directory is never used (D198).
import assert from 'node:assert/strict'
import fs, { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import { exchange, settleExchange } from '../../src/store/exchange.ts'
import { openInstance } from '../../src/store/instance.ts'
import { takeLock } from '../../src/store/lock.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const folder = temporaryDirectory('exchange')

const NAMES = ['postrider.db', 'postrider.db-wal', 'instance.key', 'erasures.ledger', 'spool/one', 'spool/two']

/** Writes the files of an installation, each with whose it is. */
function lay(dir: string, whose: string, names = NAMES): void {
  mkdirSync(join(dir, 'spool'), { recursive: true, mode: 0o700 })
  for (const name of names) writeFileSync(join(dir, name), whose)
}

const pictureOf = (dir: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(dir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.name.endsWith('.lock'))
      .map((entry) => join(entry.parentPath, entry.name))
      .map((file) => [file.slice(dir.length + 1), readFileSync(file, 'utf8')]),
  )
const under = (prefix: string, whose: string, names = NAMES): Record<string, string> =>
  Object.fromEntries(names.map((name) => [`${prefix}${name}`, whose]))

const CALLS = ['renameSync', 'mkdirSync', 'rmdirSync', 'fsyncSync'] as const

/** Runs work whose nth change of a directory is its last, before it or after it is made, as a kill would end it. */
function cutAt(nth: number, when: 'before' | 'after', work: () => void): boolean {
  const real = Object.fromEntries(CALLS.map((name) => [name, fs[name]]))
  let calls = 0
  let cut = false
  for (const name of CALLS)
    Object.assign(fs, {
      [name]: (...given: unknown[]) => {
        const isLast = ++calls === nth
        cut ||= isLast
        if (isLast && when === 'before') throw new Error('cut')
        const answer = (real[name] as (...all: unknown[]) => unknown)(...given)
        if (isLast) throw new Error('cut')
        return answer
      },
    })
  syncBuiltinESMExports()
  try {
    work()
    return false
  } catch (thrown) {
    if (!cut) throw thrown
    return true
  } finally {
    Object.assign(fs, real)
    syncBuiltinESMExports()
  }
}

const RESTORED = NAMES.filter((name) => name !== 'postrider.db-wal')

for (const when of ['before', 'after'] as const)
  test(`continues an exchange that was interrupted ${when} any step, with complete old and new contents`, () => {
    let steps = 0
    for (let whole = false; !whole; steps++) {
      const dir = join(folder, `${when}-${steps}`)
      lay(dir, 'former')
      const place = join(dir, '.restore-1')
      lay(place, 'restored', RESTORED)
      whole = !cutAt(steps + 1, when, () => exchange(dir, '7', place))
      const begun = existsSync(join(dir, '.restore-1')) ? 'no' : whole ? 'whole' : 'yes'
      const told = settleExchange(dir)
      if (begun === 'no') {
        assert.equal(told, undefined)
        assert.deepEqual(pictureOf(dir), { ...under('', 'former'), ...under('.restore-1/', 'restored', RESTORED) })
        continue
      }
      assert.deepEqual(
        pictureOf(dir),
        { ...under('set-aside-7/', 'former'), ...under('', 'restored', RESTORED) },
        `step ${steps + 1}`,
      )
      if (told !== undefined)
        assert.match(
          told,
          /^Completed the interrupted replacement of the data in .*; the earlier data is in .*\/set-aside-7\.$/,
        )
      assert.equal(settleExchange(dir), undefined)
    }
    assert.ok(steps >= 20, `${steps} steps`)
  })

test('continues an exchange that was interrupted twice', () => {
  for (const first of [1, 5, 9, 13])
    for (let second = 1; second < 12; second++) {
      const dir = join(folder, `twice-${first}-${second}`)
      lay(dir, 'former')
      lay(join(dir, '.restore-1'), 'restored', RESTORED)
      assert.ok(cutAt(first, 'after', () => exchange(dir, '7', join(dir, '.restore-1'))))
      cutAt(second, 'after', () => settleExchange(dir))
      settleExchange(dir)
      assert.deepEqual(pictureOf(dir), { ...under('set-aside-7/', 'former'), ...under('', 'restored', RESTORED) })
    }
})

test('opens and creates no installation during an exchange, and a second exchange completes it first', () => {
  const dir = join(folder, 'closed')
  lay(dir, 'former')
  lay(join(dir, '.restore-1'), 'restored', RESTORED)
  // All old files are aside, and no new ones are in place yet.
  for (let step = 1; readdirSync(dir).some((name) => name.startsWith('instance.')); step++) {
    rmSync(dir, { recursive: true })
    lay(dir, 'former')
    lay(join(dir, '.restore-1'), 'restored', RESTORED)
    assert.ok(cutAt(step, 'after', () => exchange(dir, '7', join(dir, '.restore-1'))))
  }
  const before = pictureOf(dir)
  assert.throws(() => openInstance(dir, { begins: true }), /contains .*\.exchange-\w+-7.* but no database/)
  const release = takeLock(dir)!
  assert.throws(() => settleExchange(dir), /is replacing the data .*; wait until it is complete/)
  release()
  assert.deepEqual(pictureOf(dir), before)
  cpSync(dir, join(folder, 'again'), { recursive: true })
  exchange(join(folder, 'again'), '8')
  assert.deepEqual(pictureOf(join(folder, 'again')), {
    ...under('set-aside-7/', 'former'),
    ...under('set-aside-8/', 'restored', RESTORED),
  })
})
