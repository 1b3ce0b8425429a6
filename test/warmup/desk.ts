// A store with only warm-up, and a manual clock.
import { DAY } from '../../src/base/clock.ts'
import { parseConfig, type ConfigInput } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import { openStore } from '../../src/store/open.ts'
import { learnReceiver } from '../../src/warmup/gate.ts'
import { closeDays } from '../../src/warmup/judge.ts'
import { DailyLimits, type ReplyAboutUs } from '../../src/warmup/limits.ts'
import { findPair, type Pair } from '../../src/warmup/pairs.ts'
import { setPair, type Setting } from '../../src/warmup/settings.ts'
import { historyOfPair } from '../../src/warmup/shown.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'

export const PAIR: Pair = { source: '192.0.2.1', receiver: 'there.test' }

export function desk(input: ConfigInput = {}) {
  const dataDir = temporaryDirectory('warmup')
  const store = openStore(dataDir)
  const config = parseConfig({
    hostname: 'mx.here.test',
    notices: { operator: 'operator@here.test' },
    ...input,
    data_dir: dataDir,
  })
  const clock = new ManualClock(Date.UTC(2026, 10, 2, 12))
  const deps = { store, config, clock, log: silentLog, noticed: () => {} }
  const limits = new DailyLimits(deps)
  const self = {
    ...deps,
    dataDir,
    limits,
    today: () => Math.floor(clock.now() / DAY),
    take: (wanted: number, bulk = true, pair = PAIR) =>
      store.write((tx) => limits.take(tx, pair, { bulk, wanted, now: clock.now() })),
    room: (bulk = true, pair = PAIR) => limits.capacity(store, pair, { bulk, now: clock.now() }),
    /** Notes the same outcome for several recipients. */
    note: (kind: ReplyAboutUs['kind'], times = 1, { pair = PAIR, text = '', ago = 0 } = {}) =>
      store.write((tx) => {
        for (let time = 0; time < times; time++)
          limits.note(tx, pair, { kind, text, mailDay: self.today() - ago, now: clock.now() })
      }),
    learn: (domain: string, receiver: string | null) =>
      store.write((tx) => learnReceiver(tx, domain, { receiver }, clock.now())),
    row: (pair = PAIR) => findPair(store, pair),
    history: (pair = PAIR) => {
      const row = findPair(store, pair)
      return row ? historyOfPair(store, row.key, clock.now(), null) : []
    },
    set: (setting: Setting, pair = PAIR) =>
      store.write((tx) => setPair({ ...deps, tx, now: clock.now() }, findPair(tx, pair)!, setting, 'ann')),
    /** Advances the clock by days and evaluates past days, as the hourly task does. */
    async nextDay(days = 1) {
      for (let day = 0; day < days; day++) {
        clock.leap(DAY)
        await closeDays(deps)
      }
    },
    end() {
      store.close()
    },
  }
  return self
}
