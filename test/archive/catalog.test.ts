// Which backups stay at a place, and which are ours to remove.
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import {
  clearOut,
  manifestName,
  nameOf,
  newestOf,
  surplus,
  type Manifest,
  type StoredBackup,
} from '../../src/archive/catalog.ts'
import { openPlace, type BackupPlace } from '../../src/archive/places/place.ts'
import { DAY, HOUR, iso } from '../../src/base/clock.ts'
import { parseConfig } from '../../src/base/config.ts'
import { nextRun, parseCron } from '../../src/base/cron.ts'
import { livesOnFor } from '../../src/checks/backups.ts'
import { ManualClock } from '../kit/clock.ts'

const OWN = 'a'.repeat(32)
const OTHER = 'b'.repeat(32)
const FIRST = Date.UTC(2026, 0, 1, 2)
const KEEP = { daily: 7, weekly: 4, monthly: 6 }

const backup = (at: number, complete = true): StoredBackup => ({
  name: nameOf(at, OWN, false),
  at,
  fingerprint: OWN,
  sealed: false,
  size: 1,
  complete,
})
const days = (count: number): StoredBackup[] =>
  Array.from({ length: count }, (_, day) => backup(FIRST + day * DAY)).toReversed()

describe('what is kept', () => {
  test('after a year of daily backups: 7 days, 4 weeks, 6 months, and no more than that (B12)', () => {
    let kept: StoredBackup[] = []
    for (let day = 0; day < 365; day++) {
      kept = [backup(FIRST + day * DAY), ...kept]
      const gone = new Set(surplus(kept, KEEP, FIRST + day * DAY))
      kept = kept.filter((each) => !gone.has(each))
    }
    const last = FIRST + 364 * DAY
    for (let day = 0; day < 7; day++)
      assert.ok(
        kept.some(({ at }) => at === last - day * DAY),
        `day -${day}`,
      )
    const months = new Set(kept.map(({ at }) => iso(at).slice(0, 7)))
    assert.ok(months.size >= 6)
    assert.ok(kept.length <= 17, String(kept.length))
  })

  for (const [schedule, keep, most] of [
    ['0 2 * * *', KEEP, 186],
    ['0 2 * * *', { daily: 1, weekly: 0, monthly: 0 }, 4],
    ['0 2 * * *', { daily: 0, weekly: 4, monthly: 0 }, 28],
    ['0 */6 * * *', { daily: 7, weekly: 0, monthly: 0 }, 7],
    ['0 2 * * sun', { daily: 7, weekly: 0, monthly: 0 }, 49],
    ['0 2 1 * *', { daily: 0, weekly: 0, monthly: 6 }, 186],
  ] as const)
    test(`with "${schedule}" and ${JSON.stringify(keep)} none lies there for longer than ${most} days, as usage says (B12)`, () => {
      const backup_ = { ...parseConfig({}).backup, to: ['/to'], schedule, keep }
      const said = livesOnFor(backup_, FIRST)
      assert.equal(Math.ceil((said ?? 0) / DAY), most)
      const cron = parseCron(schedule)!
      let kept: StoredBackup[] = []
      let oldest = 0
      for (let at = FIRST; at < FIRST + 800 * DAY; at = nextRun(cron, at)!) {
        kept = [backup(at), ...kept]
        const gone = new Set(surplus(kept, keep, at))
        for (const each of gone) oldest = Math.max(oldest, at - each.at)
        kept = kept.filter((each) => !gone.has(each))
      }
      assert.ok(oldest > 0 && oldest <= said!, `${oldest / DAY} days`)
    })

  test('at most a quarter goes at a time, whatever the clock said, and never the newest (B12)', () => {
    const all = days(40)
    const one = { daily: 1, weekly: 0, monthly: 0 }
    const gone = surplus(all, one, FIRST + 40 * DAY)
    assert.equal(gone.length, 10)
    // The oldest first.
    assert.deepEqual(
      gone.map(({ at }) => at),
      all
        .toReversed()
        .slice(0, 10)
        .map(({ at }) => at),
    )
    for (const count of [1, 2, 3]) assert.deepEqual(surplus(days(count), one, FIRST + 40 * DAY), [])
    // A clock that ran ahead for one backup makes nothing old, and that backup takes the place of none.
    const ahead = [backup(FIRST + 4000 * DAY), ...days(8)]
    for (const now of [FIRST + 4000 * DAY, FIRST + 8 * DAY])
      assert.deepEqual(
        surplus(ahead, KEEP, now).filter(({ at }) => at > FIRST + DAY),
        [],
      )
    assert.deepEqual(surplus([backup(FIRST + 4000 * DAY), ...days(40)], one, FIRST + 40 * DAY), gone)
  })

  test('what was not finished counts in nothing (B12)', () => {
    const all = days(8).map((each, index) => ({ ...each, complete: index > 0 }))
    assert.equal(newestOf(all)?.at, FIRST + 6 * DAY)
    assert.ok(
      !surplus(all, { daily: 1, weekly: 0, monthly: 0 }, FIRST + 8 * DAY).some(({ at }) => at === FIRST + 6 * DAY),
    )
    assert.equal(newestOf(all, FIRST + 3 * DAY + HOUR)?.at, FIRST + 3 * DAY)
    assert.equal(newestOf(all, FIRST - 1), undefined)
  })
})

test('a list without end does not show a finished backup as one that is not: others do not count, and of ours too many are refused (B12)', async () => {
  const now = FIRST + 20 * DAY
  const removed: string[] = []
  const listing = (names: Iterable<string>): BackupPlace => ({
    title: 'a place',
    writesOnly: false,
    put: () => assert.fail('nothing is put'),
    async *list() {
      for (const name of names) yield { name, size: 1, at: FIRST }
    },
    head: async () => undefined,
    get: () => assert.fail('nothing is read'),
    remove: async (name) => void removed.push(name),
    close: async () => {},
  })
  const mine = nameOf(FIRST, OWN, false)
  const others = Array.from({ length: 30_000 }, (_, n) => `letter-${n}.eml`)
  const keep = { keep: KEEP, now }
  assert.deepEqual(await clearOut(listing([mine, ...others, manifestName(mine)]), OWN, keep), [])
  const many = days(20_001).map(({ name }) => name)
  await assert.rejects(
    clearOut(listing([...many, ...many.map(manifestName)]), OWN, keep),
    /a place has more than 20000 objects of backups; remove some, or use another folder or prefix\.$/,
  )
  assert.deepEqual(removed, [])
})

describe('a place', () => {
  const folder = mkdtempSync(join(tmpdir(), 'postrider-catalog-'))
  after(() => rmSync(folder, { recursive: true, force: true }))

  const put = (at: number, fingerprint: string, written: string | undefined): string => {
    const name = nameOf(at, fingerprint, false)
    writeFileSync(join(folder, name), 'x')
    if (written === undefined) return name
    const manifest: Manifest = {
      format: 1,
      name,
      made_at: iso(at),
      size: 1,
      sha256: 'ab'.repeat(32),
      plain: 1,
      files: 1,
      rows: {},
      fingerprint: written,
      version: '0.3.0',
      schema: 35,
      recipients: [],
    }
    writeFileSync(join(folder, manifestName(name)), JSON.stringify(manifest))
    return name
  }

  test('keeps what is of others, and loses what is surplus and what was never finished (B10, B12)', async () => {
    const now = FIRST + 20 * DAY
    const mine = Array.from({ length: 12 }, (_, day) => put(FIRST + day * DAY, OWN, OWN))
    // A name of ours over a manifest of others is not ours.
    const foreign = put(FIRST - DAY, OWN, OTHER)
    const others = Array.from({ length: 12 }, (_, day) => put(FIRST + day * DAY + HOUR, OTHER, OTHER))
    const cut = put(now - 2 * DAY, OWN, undefined)
    const underWay = put(now - HOUR, OWN, undefined)
    writeFileSync(join(folder, 'letters.zip'), 'x')
    const place = openPlace(folder, {}, { clock: new ManualClock(now) })
    const gone = await clearOut(place, OWN, { keep: { daily: 1, weekly: 0, monthly: 0 }, now })
    assert.deepEqual(gone.toSorted(), [...mine.slice(0, 2), cut].toSorted())
    const left = readdirSync(folder)
    for (const name of [...others, foreign, underWay, 'letters.zip', ...mine.slice(2)])
      assert.ok(left.includes(name), name)
    for (const name of gone) assert.ok(!left.includes(name) && !left.includes(manifestName(name)), name)
  })
})
