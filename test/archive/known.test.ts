// Which objects at a destination a backup uses again.
import assert from 'node:assert/strict'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { nameOf } from '../../src/archive/catalog.ts'
import { isWholeDue, keepKnown, readKnown, usable, type KnownObjects } from '../../src/archive/known.ts'
import { rootOf } from '../../src/archive/pages.ts'
import { DAY, HOUR, MINUTE } from '../../src/base/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const OWN = 'a'.repeat(32)
const NOW = Date.UTC(2026, 5, 1)
const MB = 1024 ** 2
const DIGESTS = Buffer.alloc(64, 1)

const object = (at: number, kind: 'db' | 'files', plain: number): KnownObjects['packs'][number]['object'] => ({
  name: nameOf(at, OWN, true, kind),
  size: 1000,
  sha256: 'ab'.repeat(32),
  plain,
})
const pack = (at: number, files: string[], plain = 64 * MB): KnownObjects['packs'][number] => ({
  object: object(at, 'files', plain),
  files,
})
const known = (packs: KnownObjects['packs'], at = NOW - HOUR): KnownObjects => ({
  recipients: ['age1a'],
  cleared: 0,
  whole: { object: object(at, 'db', MB), at, sent: 0, root: rootOf(DIGESTS) },
  digests: DIGESTS,
  packs,
})
const listed = ({ packs, whole }: KnownObjects): Map<string, number> =>
  new Map([...packs, ...(whole ? [whole] : [])].map((each) => [each.object.name, each.object.size]))
const filesIn = (of: KnownObjects): string[] => of.packs.flatMap(({ files }) => files)

test('keeps what it knows per destination and keys, and forgets it if a file is corrupt', () => {
  const dataDir = temporaryDirectory('known')
  const one = known([pack(NOW, ['a'])])
  keepKnown(dataDir, '/one', one, true)
  assert.deepEqual(readKnown(dataDir, '/one', ['age1a']), one)
  assert.deepEqual(readKnown(dataDir, '/two', ['age1a']).packs, [])
  // A restore with the new key could not open the old objects.
  assert.deepEqual(readKnown(dataDir, '/one', ['age1a', 'age1b']).packs, [])
  assert.deepEqual(readKnown(dataDir, '/one', []).whole, undefined)
  const folder = join(dataDir, 'backup-state')
  const [json = '', pages = ''] = readdirSync(folder).toSorted()
  writeFileSync(join(folder, pages), 'x')
  const { packs, whole } = readKnown(dataDir, '/one', ['age1a'])
  assert.deepEqual([packs, whole], [one.packs, undefined])
  writeFileSync(join(folder, json), '{')
  assert.deepEqual(readKnown(dataDir, '/one', ['age1a']).packs, [])
})

test('the whole database is due after a day, or when the changed pages add up to its size', () => {
  const at = (when: number, sent = 0): KnownObjects => {
    const one = known([], when)
    return { ...one, whole: { ...one.whole!, sent } }
  }
  assert.equal(isWholeDue(at(NOW - HOUR), NOW), false)
  assert.equal(isWholeDue(at(NOW - HOUR, 999), NOW), false)
  assert.equal(isWholeDue(at(NOW - HOUR, 1000), NOW), true)
  // A daily backup starts a few seconds earlier or later.
  assert.equal(isWholeDue(at(NOW - DAY + MINUTE), NOW), true)
  // The clock was set back.
  assert.equal(isWholeDue(at(NOW + MINUTE), NOW), true)
  assert.equal(isWholeDue({ ...at(NOW), whole: undefined }, NOW), true)
})

test('uses an object only if the destination lists it with its size', () => {
  const all = known([pack(NOW - HOUR, ['a']), pack(NOW - HOUR, ['b']), pack(NOW - HOUR, ['c'])])
  const spool = new Set(['a', 'b', 'c'])
  const objects = listed(all)
  assert.deepEqual(usable(all, objects, spool, NOW), all)
  objects.delete(all.packs[0]!.object.name)
  objects.set(all.packs[1]!.object.name, 999)
  objects.delete(all.whole!.object.name)
  const found = usable(all, objects, spool, NOW)
  assert.deepEqual([filesIn(found), found.whole], [['c'], undefined])
})

test('does not use an object without files of the spool, and one with a deleted file only for a month', () => {
  const all = known([
    pack(NOW - HOUR, ['deleted']),
    pack(NOW - 30 * DAY, ['a', 'deleted too']),
    pack(NOW - 31 * DAY, ['b', 'deleted too']),
    pack(NOW - 300 * DAY, ['c']),
  ])
  assert.deepEqual(filesIn(usable(all, listed(all), new Set(['a', 'b', 'c']), NOW)), ['a', 'deleted too', 'c'])
})

test('sends the files of small objects again, together, if there are more than 200', () => {
  const small = Array.from({ length: 200 }, (_, n) => pack(NOW - n * MINUTE, [`s${n}`], MB))
  const all = known([pack(NOW - HOUR, ['large']), ...small])
  const spool = new Set(filesIn(all))
  assert.deepEqual(usable(all, listed(all), spool, NOW), all)
  const more = { ...all, packs: [...all.packs, pack(NOW, ['one more'], MB)] }
  assert.deepEqual(filesIn(usable(more, listed(more), spool.add('one more'), NOW)), ['large'])
})
