// The check of `postrider doctor` for backups (B13).
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DAY, HOUR, iso, SECOND, systemClock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { withDeps, type Invocation } from '../commands/open.ts'
import type { Reader } from '../store/database.ts'
import { DATABASE } from '../store/open.ts'
import { lateTargets, targetStates, type TargetState } from './backups.ts'
import { lastBackup } from './figures.ts'
import { bad, warn, well, type Finding } from './doctor-machine.ts'

const agoText = (at: number, now: number): string => `${Math.max(0, Math.round((now - at) / HOUR))} h ago`

const sizeText = (octets: number | null): string =>
  octets === null ? '' : octets < 1e7 ? `, ${Math.ceil(octets / 1e3)} kB` : `, ${Math.round(octets / 1e6)} MB`

/** One target in words: "/mnt/backups 3 h ago, 12 MB in 4 s, drill 20 h ago". */
function stateText({ drilled, failures, last, target }: TargetState, now: number): string {
  if (!last) return `${target} never`
  const took = `${sizeText(last.octets)} in ${Math.ceil((last.ended_at - last.started_at) / SECOND)} s`
  const drill = drilled ? `, drill ${agoText(drilled.ended_at, now)}` : ', no drill yet'
  return `${target} ${agoText(last.ended_at, now)}${took}${drill}${failures === 0 ? '' : `, failures: ${failures}`}`
}

/** A sentence is cut where it says what to do: "what; mend." */
function partsOf(fault: string): { what: string; mend: string } {
  const at = fault.lastIndexOf('; ')
  return at < 0
    ? { what: fault.replace(/\.$/, ''), mend: '"postrider backup now" tries again; the log says more.' }
    : { what: fault.slice(0, at), mend: `${fault.charAt(at + 2).toUpperCase()}${fault.slice(at + 3)}` }
}

type JudgedConfig = Pick<Config, 'backup' | 'data_dir'>

/** A backup that was made by hand or by another program's schedule is enough for so long. */
const OLD = 8 * DAY

/** No target is configured. */
function judgeByHand(check: string, config: JudgedConfig, now: number): Finding {
  const none = 'none is made by itself: "backup.to" is empty'
  const last = lastBackup({ config }) * SECOND
  return last > 0 && now - last < OLD
    ? well(check, `${none}; "postrider backup" made one ${agoText(last, now)}`)
    : warn(check, none, 'Set "backup.to" to a place on another disk or machine (docs/backup.md).')
}

/** `reader` is undefined where there is no database yet. */
export function judgeBackups(reader: Reader | undefined, config: JudgedConfig, now: number): Finding {
  const check = 'backups'
  const { backup } = config
  if (backup.to.length === 0) return judgeByHand(check, config, now)
  const states = reader ? targetStates(reader, backup, now) : []
  const [late] = lateTargets(states, backup, now)
  if (late) {
    const { mend, what } = partsOf(late.failed?.fault ?? 'it was not tried; see that the server runs.')
    const since = late.last ? `since ${iso(late.last.ended_at)}` : 'ever'
    return bad(check, `no backup to ${late.target} ${since}: ${what}`, mend)
  }
  const detail = states.map((state) => stateText(state, now)).join('; ')
  const broken = states.find(({ drillFailed, failed }) => failed ?? drillFailed)
  const fault = broken?.failed ?? broken?.drillFailed
  if (broken && fault) {
    const { mend, what } = partsOf(fault.fault ?? '')
    const which = fault.kind === 'drill' ? 'drill of' : 'backup to'
    return warn(check, `the last ${which} ${broken.target} failed: ${what}`, mend)
  }
  return well(check, detail || `the first is made by the schedule "${backup.schedule}" (UTC)`)
}

/** As `judgeBackups`, for the command: with the database of the data directory, where there is one. */
export async function lookAtBackups(invocation: Invocation, config: Config): Promise<Finding> {
  const now = systemClock.now()
  if (!existsSync(join(config.data_dir, DATABASE))) return judgeBackups(undefined, config, now)
  return withDeps(invocation, ({ store }) => judgeBackups(store, config, now))
}
