// A store with warm-up and nothing else, and a clock that is turned by hand.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DAY } from '../../src/base/clock.ts'
import { parseConfig, type ConfigInput } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import { openStore } from '../../src/store/open.ts'
import { closeDays } from '../../src/warmup/close.ts'
import { findPair, type Pair } from '../../src/warmup/pairs.ts'
import { Warmup, type AboutUs } from '../../src/warmup/places.ts'
import { setPair, type Setting } from '../../src/warmup/settings.ts'
import { historyOfPair } from '../../src/warmup/shown.ts'
import { ManualClock } from '../kit/clock.ts'

export const PAIR: Pair = { source: '192.0.2.1', receiver: 'there.test' }

export function desk(input: ConfigInput = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), 'postrider-warmup-'))
  const store = openStore(dataDir)
  const config = parseConfig({
    hostname: 'mx.here.test',
    notices: { operator: 'operator@here.test' },
    ...input,
    data_dir: dataDir,
  })
  const clock = new ManualClock(Date.UTC(2026, 10, 2, 12))
  const deps = { store, config, clock, log: silentLog, noticed: () => {} }
  const warmup = new Warmup(deps)
  const self = {
    ...deps,
    dataDir,
    warmup,
    today: () => Math.floor(clock.now() / DAY),
    take: (wanted: number, bulk = true, pair = PAIR) =>
      store.write((tx) => warmup.take(tx, pair, { bulk, wanted, now: clock.now() })),
    room: (bulk = true, pair = PAIR) => warmup.roomFor(store, pair, { bulk, now: clock.now() }),
    /** Notes the same outcome for several recipients. */
    note: (kind: AboutUs['kind'], times = 1, { pair = PAIR, words = '', ago = 0 } = {}) =>
      store.write((tx) => {
        for (let time = 0; time < times; time++)
          warmup.note(tx, pair, { kind, words, mailDay: self.today() - ago, now: clock.now() })
      }),
    row: (pair = PAIR) => findPair(store, pair),
    history: (pair = PAIR) => {
      const row = findPair(store, pair)
      return row ? historyOfPair(store, row.key, clock.now(), null) : []
    },
    set: (setting: Setting, pair = PAIR) =>
      store.write((tx) => setPair({ ...deps, tx, now: clock.now() }, findPair(tx, pair)!, setting, 'ann')),
    /** Turns the clock by days and judges what is over, as the hourly task does. */
    async nextDay(days = 1) {
      for (let day = 0; day < days; day++) {
        clock.leap(DAY)
        await closeDays(deps)
      }
    },
    end() {
      store.close()
      rmSync(dataDir, { recursive: true })
    },
  }
  return self
}
