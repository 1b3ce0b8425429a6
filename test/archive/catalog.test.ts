// Which backups a destination keeps, and which Postrider may delete.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import {
  backupsAt,
  clearOut,
  manifestName,
  nameOf,
  newestOf,
  nextTime,
  objectsAt,
  surplus,
  type Manifest,
  type StoredBackup,
} from '../../src/archive/catalog.ts'
import { openDestination, type Destination } from '../../src/archive/destinations/destination.ts'
import { DAY, HOUR, iso, MINUTE, SECOND } from '../../src/base/clock.ts'
import { parseConfig } from '../../src/base/config.ts'
import { nextRun, parseCron } from '../../src/base/cron.ts'
import { livesOnFor } from '../../src/checks/backups.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const OWN = 'a'.repeat(32)
const OTHER = 'b'.repeat(32)
const FIRST = Date.UTC(2026, 0, 1, 2)
const KEEP = { hourly: 24, daily: 7, weekly: 4, monthly: 6 }

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

test('names a backup later than those of the same installation, even if the clock was set back', () => {
  const next = (now: number, ...names: string[]): number => nextTime(names, OWN, now)
  assert.equal(next(FIRST), FIRST)
  assert.equal(next(FIRST + 500, nameOf(FIRST, OWN, false)), FIRST + SECOND)
  assert.equal(next(FIRST, nameOf(FIRST + HOUR, OWN, true, 'files'), 'readme.txt'), FIRST + HOUR + SECOND)
  assert.equal(next(FIRST, nameOf(FIRST + HOUR, OTHER, true)), FIRST)
  // A restore ignores it as well.
  assert.equal(next(FIRST, nameOf(FIRST + DAY + HOUR, OWN, true)), FIRST)
})

describe('retention', () => {
  test('keeps 7 days, 4 weeks and 6 months after a year of daily backups, and no more', () => {
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
    ['0 2 * * *', { hourly: 0, daily: 1, weekly: 0, monthly: 0 }, 4],
    ['0 2 * * *', { hourly: 24, daily: 0, weekly: 4, monthly: 0 }, 28],
    ['0 */6 * * *', { hourly: 24, daily: 7, weekly: 0, monthly: 0 }, 7],
    ['0 2 * * sun', { hourly: 24, daily: 7, weekly: 0, monthly: 0 }, 49],
    ['0 2 1 * *', { hourly: 24, daily: 0, weekly: 0, monthly: 6 }, 186],
  ] as const)
    test(`keeps no backup longer than ${most} days with "${schedule}" and ${JSON.stringify(keep)}, as usage reports`, () => {
      const backup_ = { ...parseConfig({}).backup, to: ['/to'], schedule, keep }
      // An object that backups share is used for a month after a file in it was deleted, and then deleted within a day.
      const said = livesOnFor(backup_, FIRST)! - 32 * DAY
      assert.equal(Math.ceil(said / DAY), most)
      const cron = parseCron(schedule)!
      let kept: StoredBackup[] = []
      let oldest = 0
      for (let at = FIRST; at < FIRST + 800 * DAY; at = nextRun(cron, at)!) {
        kept = [backup(at), ...kept]
        const gone = new Set(surplus(kept, keep, at))
        for (const each of gone) oldest = Math.max(oldest, at - each.at)
        kept = kept.filter((each) => !gone.has(each))
      }
      assert.ok(oldest > 0 && oldest <= said, `${oldest / DAY} days`)
    })

  test('keeps one of each of the last 24 hours with a backup every 5 minutes, and one a day before', () => {
    let kept: StoredBackup[] = []
    const last = FIRST + 3 * DAY
    for (let at = FIRST; at <= last; at += 5 * MINUTE) {
      kept = [backup(at), ...kept]
      const gone = new Set(surplus(kept, KEEP, at))
      kept = kept.filter((each) => !gone.has(each))
    }
    const hours = Array.from({ length: 23 }, (_, hour) => last - hour * HOUR - 5 * MINUTE)
    const days = ['2026-01-03', '2026-01-02', '2026-01-01'].map((day) => Date.parse(`${day}T23:55:00Z`))
    assert.deepEqual(
      kept.map(({ at }) => at),
      [...new Set([last, ...hours, ...days])],
    )
  })

  test('deletes at most a quarter at a time, at any time of the clock, and never the newest', () => {
    const all = days(40)
    const one = { hourly: 0, daily: 1, weekly: 0, monthly: 0 }
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
    // A backup made while the clock was ahead neither expires others nor takes their place.
    const ahead = [backup(FIRST + 4000 * DAY), ...days(8)]
    for (const now of [FIRST + 4000 * DAY, FIRST + 8 * DAY])
      assert.deepEqual(
        surplus(ahead, KEEP, now).filter(({ at }) => at > FIRST + DAY),
        [],
      )
    assert.deepEqual(surplus([backup(FIRST + 4000 * DAY), ...days(40)], one, FIRST + 40 * DAY), gone)
  })

  test('ignores incomplete backups', () => {
    const all = days(8).map((each, index) => ({ ...each, complete: index > 0 }))
    assert.equal(newestOf(all)?.at, FIRST + 6 * DAY)
    assert.ok(
      !surplus(all, { hourly: 0, daily: 1, weekly: 0, monthly: 0 }, FIRST + 8 * DAY).some(
        ({ at }) => at === FIRST + 6 * DAY,
      ),
    )
    assert.equal(newestOf(all, FIRST + 3 * DAY + HOUR)?.at, FIRST + 3 * DAY)
    assert.equal(newestOf(all, FIRST - 1), undefined)
  })
})

test('lists complete backups correctly in an endless list, ignores other objects, and rejects too many backups', async () => {
  const listing = (names: Iterable<string>): Destination => ({
    title: 'a destination',
    put: () => assert.fail('nothing is put'),
    async *list() {
      for (const name of names) yield { name, size: 1 }
    },
    sizeOf: async () => undefined,
    get: () => assert.fail('nothing is read'),
    remove: () => assert.fail('nothing is removed'),
    close: async () => {},
  })
  const mine = nameOf(FIRST, OWN, false)
  const others = Array.from({ length: 30_000 }, (_, n) => `letter-${n}.eml`)
  const found = await backupsAt(listing([mine, ...others, manifestName(mine)]))
  assert.deepEqual(
    found.map(({ complete, name }) => [name, complete]),
    [[mine, true]],
  )
  const many = days(20_001).map(({ name }) => name)
  await assert.rejects(
    backupsAt(listing([...many, ...many.map(manifestName)])),
    /a destination has more than 20000 backup objects; delete some, or use another directory or prefix\.$/,
  )
})

describe('a destination', () => {
  const clear = async (destination: Destination, now: number, shared: boolean): Promise<string[]> => {
    const keep = { hourly: 0, daily: 1, weekly: 0, monthly: 0 }
    return clearOut(destination, { objects: await objectsAt(destination), fingerprint: OWN, keep, now, shared })
  }

  const putter =
    (folder: string) =>
    (at: number, fingerprint: string, written: string | undefined, objects: string[] = []): string => {
      const name = nameOf(at, fingerprint, false)
      writeFileSync(join(folder, name), 'x')
      if (written === undefined) return name
      const manifest: Manifest = {
        format: 2,
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
        objects: objects.map((each) => ({ name: each, size: 1, sha256: 'ab'.repeat(32), plain: 1 })),
      }
      writeFileSync(join(folder, manifestName(name)), JSON.stringify(manifest))
      return name
    }

  test('keeps objects of others, and deletes expired and incomplete backups', async () => {
    const folder = temporaryDirectory('catalog')
    const put = putter(folder)
    const now = FIRST + 20 * DAY
    const mine = Array.from({ length: 12 }, (_, day) => put(FIRST + day * DAY, OWN, OWN))
    // A name of ours over a manifest of others is not ours.
    const foreign = put(FIRST - DAY, OWN, OTHER)
    const others = Array.from({ length: 12 }, (_, day) => put(FIRST + day * DAY + HOUR, OTHER, OTHER))
    const cut = put(now - 2 * DAY, OWN, undefined)
    const underWay = put(now - HOUR, OWN, undefined)
    writeFileSync(join(folder, 'letters.zip'), 'x')
    const destination = openDestination(folder, {}, { clock: new ManualClock(now) })
    const gone = await clear(destination, now, false)
    assert.deepEqual(gone.toSorted(), [...mine.slice(0, 2), cut].toSorted())
    const left = readdirSync(folder)
    for (const name of [...others, foreign, underWay, 'letters.zip', ...mine.slice(2)])
      assert.ok(left.includes(name), name)
    for (const name of gone) assert.ok(!left.includes(name) && !left.includes(manifestName(name)), name)
  })

  test('deletes a shared object that no manifest lists after a day, and none while a manifest is unreadable', async () => {
    const folder = temporaryDirectory('catalog')
    const now = FIRST + 20 * DAY
    const shared = (at: number, fingerprint = OWN): string => {
      const name = nameOf(at, fingerprint, false, 'files')
      writeFileSync(join(folder, name), 'x')
      return name
    }
    const used = shared(now - 9 * DAY)
    const ofExpired = shared(now - 8 * DAY)
    const young = shared(now - HOUR)
    const foreign = shared(now - 8 * DAY, OTHER)
    const put = putter(folder)
    const expired = put(now - 8 * DAY, OWN, OWN, [used, ofExpired])
    const kept = [1, 2, 3].map((n) => put(now - n * HOUR, OWN, OWN, [used]))
    const destination = openDestination(folder, {}, { clock: new ManualClock(now) })
    const damaged = join(folder, manifestName(kept[0]!))
    const manifest = readFileSync(damaged)
    writeFileSync(damaged, '{')
    await assert.rejects(clear(destination, now, true), /does not belong to/)
    writeFileSync(damaged, manifest)
    assert.deepEqual(await clear(destination, now, true), [ofExpired])
    assert.deepEqual(
      [...(await objectsAt(destination)).keys()].filter((name) => !name.endsWith('.json')).toSorted(),
      [used, young, foreign, ...kept].toSorted(),
    )
    assert.ok(!readdirSync(folder).includes(expired))
  })
})
