// The finder of backups, and the state of each destination for the server page.
import { DAY, iso, SECOND } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { capital, counted, span } from '../base/text.ts'
import { fail, fixedBy, ok, warn, type Alert, type Finder, type Finding } from '../parts/findings/finding.ts'
import type { Reader } from '../store/database.ts'
import { DRILLED_EVERY, lateTargets, targetStates, type BackupRun, type TargetState } from './backups.ts'
import { lastBackup } from './figures.ts'

const agoText = (at: number, now: number): string => `${span(Math.max(0, now - at))} ago`

const sizeText = (bytes: number | null): string =>
  bytes === null ? '' : bytes < 1e7 ? `, ${Math.ceil(bytes / 1e3)} kB` : `, ${Math.round(bytes / 1e6)} MB`

/** The state of one target: "/mnt/backups 4 min ago, 12 MB in 4 s, restore test 20 h ago". */
function stateText({ drilled, failures, last, target }: TargetState, now: number): string {
  if (!last) return `${target} never`
  const took = `${sizeText(last.octets)} in ${Math.ceil((last.ended_at - last.started_at) / SECOND)} s`
  const drill = drilled ? `, restore test ${agoText(drilled.ended_at, now)}` : ', no restore test yet'
  return `${target} ${agoText(last.started_at, now)}${took}${drill}${failures === 0 ? '' : `, ${counted(failures, 'failure')}`}`
}

/** Splits a sentence into its problem and its fix. */
function partsOf(fault: string): { what: string; fix: string } {
  const at = fault.lastIndexOf('; ')
  return at < 0
    ? { what: fault.replace(/\.$/, ''), fix: 'Run "postrider backup now" to try again, and check the log.' }
    : { what: fault.slice(0, at), fix: capital(fault.slice(at + 2)) }
}

type BackupConfig = Pick<Config, 'backup' | 'data_dir'>

/** How long a backup that was created manually or by cron is recent enough. */
const OLD = 8 * DAY

const ID = 'backups'
const DRILL_ID = 'restore tests'

/** Returns the finding if no target is configured. */
function withoutTarget(config: BackupConfig, now: number): Finding {
  const none = 'automatic backups are off ("backup.to" is empty)'
  const last = lastBackup({ config }) * SECOND
  const summary = last > 0 ? `${none}, last "postrider backup" ${agoText(last, now)}` : none
  return last > 0 && now - last < OLD
    ? ok(ID, summary)
    : fixedBy(
        'backup',
        'If the disk fails, all email, contacts and keys of this server are lost.',
        warn(ID, summary, 'Add a backup destination on another disk or machine ("backup.to").'),
      )
}

/** Returns why a run failed, without the target, which the text already names. */
const faultOf = ({ target }: TargetState, run: BackupRun | undefined): string | undefined =>
  run?.fault?.replace(`${target}: `, '')

/** The delay is part of the rule for a late backup, so the email is sent at once. */
const ALERT: Alert = { subject: 'backup', lasts: 0 }

/** Returns the problems of a target: a late or failed backup, and a failed or overdue restore test. */
function targetFindings(state: TargetState, late: boolean, { drill }: Config['backup'], now: number): Finding[] {
  const { drilled, drillFailed, failed, last, target } = state
  const found: Finding[] = []
  if (late) {
    const { fix, what } = partsOf(faultOf(state, failed) ?? 'it was not attempted; check that the server runs.')
    const none = last ? `no backup at ${target} since ${iso(last.started_at)}` : `no backup at ${target} yet`
    found.push(fail(ID, `${none}: ${what}`, fix))
  } else if (failed) {
    const { fix, what } = partsOf(faultOf(state, failed) ?? '')
    const failing =
      failed.name === null
        ? `the last backup to ${target} failed`
        : `the last backup to ${target} succeeded, but expired backups could not be deleted`
    found.push(warn(ID, `${failing}: ${what}`, fix))
  }
  if (drillFailed) {
    const { fix, what } = partsOf(faultOf(state, drillFailed) ?? '')
    found.push({ ...warn(DRILL_ID, `the last restore test of ${target} failed: ${what}`, fix), alert: ALERT })
  } else if (drilled && now - drilled.ended_at > 2 * DRILLED_EVERY[drill]) {
    const summary = `no restore test of ${target} since ${iso(drilled.ended_at)}`
    found.push(warn(DRILL_ID, summary, 'Run "postrider backup drill", and check that the server runs.'))
  }
  return found.map((each) => ({ ...each, subject: target }))
}

/** Returns a finding for each problem of a target, or one. `reader` is undefined before there is a database. */
export function backupFindings(reader: Reader | undefined, config: BackupConfig, now: number): Finding[] {
  const { backup } = config
  if (backup.to.length === 0) return [withoutTarget(config, now)]
  const states = reader ? targetStates(reader, backup, now) : []
  const late = lateTargets(states, backup, now)
  const wrong = states.flatMap((state) => targetFindings(state, late.includes(state), backup, now))
  const detail = states.map((state) => stateText(state, now)).join('; ')
  return wrong.length > 0 ? wrong : [ok(ID, detail || `no backup yet, the schedule is "${backup.schedule}" (UTC)`)]
}

export const backupFinder: Finder = {
  effect: 'The last backup is too old.',
  alert: ALERT,
  find: ({ clock, config, store }) => backupFindings(store, config, clock.now()),
}

/** Returns the state of the backups at each target for the server page. */
export function shownTargets(
  reader: Reader,
  { backup }: BackupConfig,
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
