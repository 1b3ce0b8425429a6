// The checks and metrics of the whole server as a part. The findings are in the order of `postrider doctor`.
import { part } from '../parts/part.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { presentFindings, serverState, type StateParts } from './api.ts'
import { serverSettings, type SettingsParts } from './api-settings.ts'
import { backupFinder } from './backup-findings.ts'
import { certificateFinder } from './certificates.ts'
import { daneFinder } from './dane.ts'
import { FIGURES } from './figures.ts'
import { machineFinders } from './machine.ts'
import { networkFinders } from './network.ts'

export const checksPart = part<ApiDeps & SettingsParts & StateParts>('checks', {
  resources: [presentFindings, serverSettings, serverState],
  figures: FIGURES,
  findings: [...machineFinders, backupFinder, certificateFinder, ...networkFinders, daneFinder],
})
