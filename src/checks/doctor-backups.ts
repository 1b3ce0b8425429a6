// The check of `postrider doctor` for backups (B13).
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DAY, HOUR, iso, SECOND, systemClock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { withStore, type Invocation } from '../commands/open.ts'
import type { Reader } from '../store/database.ts'
import { DATABASE } from '../store/open.ts'
import { lateTargets, targetStates, type BackupRun, type TargetState } from './backups.ts'
import { lastBackup } from './figures.ts'
import { bad, warn, well, type Finding } from './doctor-machine.ts'

const agoText = (at: number, now: number): string => `${Math.max(0, Math.round((now - at) / HOUR))} h ago`

const sizeText = (octets: number | null): string =>
  octets === null ? '' : octets < 1e7 ? `, ${Math.ceil(octets / 1e3)} kB` : `, ${Math.round(octets / 1e6)} MB`

/** One target in words: "/mnt/backups 3 h ago, 12 MB in 4 s, drill 20 h ago". */
function stateText({ drilled, failures, givesBack, last, target }: TargetState, now: number): string {
  if (!last) return `${target} never`
  const took = `${sizeText(last.octets)} in ${Math.ceil((last.ended_at - last.started_at) / SECOND)} s`
  const drill = drilled ? `, drill ${agoText(drilled.ended_at, now)}` : givesBack ? ', no drill yet' : ''
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

/** Why a run failed, without the target, which is named before. */
const faultOf = ({ target }: TargetState, run: BackupRun | undefined): string | undefined =>
  run?.fault?.replace(`${target}: `, '')

/** What is wrong with a target; undefined: nothing. */
function judgeTarget(state: TargetState, late: boolean, named: string): Finding | undefined {
  const { drillFailed, failed, last, target } = state
  if (late) {
    const { mend, what } = partsOf(faultOf(state, failed) ?? 'it was not tried; see that the server runs.')
    const none = last ? `no backup at ${target} since ${iso(last.ended_at)}` : `there was never a backup at ${target}`
    return bad(named, `${none}: ${what}`, mend)
  }
  const fault = failed ?? drillFailed
  if (!fault) return undefined
  const { mend, what } = partsOf(faultOf(state, fault) ?? '')
  const failing =
    fault.kind === 'drill'
      ? `the last drill of ${target} failed`
      : fault.name === null
        ? `the last backup to ${target} failed`
        : `the last backup to ${target} is there, but what is not kept any more could not be removed`
  return warn(named, `${failing}: ${what}`, mend)
}

/** `reader` is undefined where there is no database yet. One finding for each target that needs somebody, else one. */
export function judgeBackups(reader: Reader | undefined, config: JudgedConfig, now: number): Finding[] {
  const check = 'backups'
  const { backup } = config
  if (backup.to.length === 0) return [judgeByHand(check, config, now)]
  const states = reader ? targetStates(reader, backup, now) : []
  const late = lateTargets(states, backup, now)
  const wrong = states.flatMap((state) => judgeTarget(state, late.includes(state), check) ?? [])
  const detail = states.map((state) => stateText(state, now)).join('; ')
  return wrong.length > 0
    ? wrong
    : [well(check, detail || `the first is made by the schedule "${backup.schedule}" (UTC)`)]
}

/** How backups stand at each target, for the page of the server. */
export function shownTargets(
  reader: Reader,
  { backup }: JudgedConfig,
  now: number,
  running: BackupRun['kind'] | undefined,
): ShownTarget[] {
  const states = targetStates(reader, backup, now)
  const late = lateTargets(states, backup, now)
  return states.map((state) => {
    const { drillFailed, drilled, failed, failures, last, target } = state
    return {
      target,
      status:
        running === 'backup' ? 'running' : late.includes(state) ? 'late' : failed ? 'failed' : last ? 'ok' : 'pending',
      last_success_at: last ? iso(last.ended_at) : null,
      octets: last?.octets ?? null,
      seconds: last ? Math.ceil((last.ended_at - last.started_at) / SECOND) : null,
      drill: running === 'drill' ? 'running' : drillFailed ? 'failed' : drilled ? 'ok' : 'pending',
      last_drill_at: drilled ? iso(drilled.ended_at) : null,
      failures,
    }
  })
}

export interface ShownTarget {
  target: string
  status: 'running' | 'failed' | 'late' | 'ok' | 'pending'
  last_success_at: string | null
  octets: number | null
  seconds: number | null
  drill: 'running' | 'failed' | 'ok' | 'pending'
  last_drill_at: string | null
  failures: number
}

/** What the operator must hear of: a target without a backup for too long, and one whose backup was not restored. */
export function graveBackups(reader: Reader, { backup }: JudgedConfig, now: number): Finding[] {
  const states = targetStates(reader, backup, now)
  const late = lateTargets(states, backup, now)
  return states.flatMap((state) => {
    const { drillFailed, target } = state
    const isLate = late.includes(state)
    if (!isLate && !drillFailed) return []
    const named = isLate ? `backups to ${target}` : `drills of ${target}`
    return judgeTarget(isLate ? state : { ...state, failed: undefined }, isLate, named) ?? []
  })
}

/** As `judgeBackups`, for the command: with the database of the data directory, where there is one. */
export async function lookAtBackups(invocation: Invocation, config: Config): Promise<Finding[]> {
  const now = systemClock.now()
  if (!existsSync(join(config.data_dir, DATABASE))) return judgeBackups(undefined, config, now)
  return withStore(invocation, (store) => judgeBackups(store, config, now))
}
