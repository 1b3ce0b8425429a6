// Warm-up as a part of the server: daily limits for a sending IP address that is new to a receiver.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { warmups } from './api.ts'
import { WarmupGate } from './gate.ts'
import { closeDays, forgetDays } from './judge.ts'
import { warmupPlaces } from './page.ts'
import { followSettings } from './settings.ts'
import { warmupFigures } from './shown.ts'
import { storeSources } from './sources.ts'

const FIGURES = [
  ['daily_limit', 'Daily limit of warm-up today, in recipients. 0 if a pair has no limit.'],
  ['used', 'Recipients to which delivery was attempted today.'],
  ['waiting', 'Recipients whose email waits for the daily limit.'],
] as const

export const warmupPart = part<ApiDeps>('warm-up', {
  resources: [warmups],
  pages: warmupPlaces,
  serverTabs: [['/server/warmup', 'Warm-up']],
  figures: FIGURES.map(([measure, help]) => ({
    name: `postrider_warmup_${measure}`,
    help,
    type: 'gauge',
    values: (deps) => warmupFigures(deps, deps.clock.now(), measure),
  })),
  gate: (deps) => new WarmupGate(deps),
  configured: storeSources,
  everySecond: (deps) => followSettings(deps, deps.limitsChanged),
  async hourly(deps) {
    await closeDays(deps)
    await forgetDays(deps)
  },
})
