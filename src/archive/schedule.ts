// Starts backups and drills by the configured schedule. Each runs in its own process with low priority, which stores
// the results.
import { DAY, HOUR, MINUTE, SECOND, type Clock } from '../base/clock.ts'
import { titlesOf } from '../base/backup-target.ts'
import type { Config } from '../base/config.ts'
import { nextRun, parseCron } from '../base/cron.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { DRILLED_EVERY, longestRun, targetStates, type BackupRun, type TargetState } from '../checks/backups.ts'
import type { Store } from '../store/database.ts'
import { isBeingCopied } from '../store/leftovers.ts'
import { raw } from '../store/query.ts'
import { recordRuns } from './runs.ts'

/** A command that runs next to the server. */
export interface BesideProcess {
  pid: number | undefined
  /** The exit code or signal, and its stderr. */
  ended: Promise<{ how: number | NodeJS.Signals; said: string }>
  /** Stops it. It leaves no files. */
  end(): void
}

/** Starts `postrider` with these arguments in its own process. */
export type Beside = (words: readonly string[]) => BesideProcess

export interface ScheduleDeps {
  store: Store
  clock: Clock
  log: Log
  config: Pick<Config, 'backup' | 'data_dir'>
  /** Undefined in the sandbox, which starts no processes. */
  beside: Beside | undefined
}

interface Running extends BesideProcess {
  kind: BackupRun['kind']
  /** Elapsed time, because the date can change. */
  since: number
  /** Whether it was stopped because it took too long. */
  overdue: boolean
}

/** When a failed drill is repeated, and how often the schedule is checked at least. */
const AGAIN = DAY
const LOOKED = HOUR
/** How often finished destinations are logged while others are in progress. */
const HEARD = 5 * SECOND

export class BackupSchedule {
  readonly #deps: ScheduleDeps
  readonly #loop: Loop
  /** The last starts of this process, so that a run is not repeated at once if its row cannot be stored. */
  readonly #begun: Record<BackupRun['kind'], number>
  #running: Running | undefined
  /** No backup starts before, because erasures wait during one. */
  #rest = 0
  /** The last row of a run that was logged. */
  #logged = 0
  #done: Promise<void> = Promise.resolve()
  /** Whether this process has started a backup. */
  #tried = false
  #stopping = false

  constructor(deps: ScheduleDeps) {
    this.#deps = deps
    this.#begun = { backup: deps.clock.now(), drill: -Infinity }
    this.#loop = new Loop({ name: 'backups', clock: deps.clock, log: deps.log, run: (now) => this.#run(now) })
  }

  start(): void {
    this.#loop.start()
  }

  /** The run in progress. */
  get running(): BackupRun['kind'] | undefined {
    return this.#running?.kind
  }

  /** Called after the configuration was reloaded or the date was set. */
  ring(): void {
    this.#loop.ring()
  }

  /** Stops a backup in progress, which is repeated after the next start. */
  async stop(): Promise<void> {
    this.#stopping = true
    await this.#loop.stop()
    this.#running?.end()
    await this.#done
  }

  #run(now: number): number | null {
    const { beside, clock, config } = this.#deps
    if (beside === undefined || config.backup.to.length === 0) return null
    const running = this.#running
    if (running) {
      // A process that hangs would prevent all later runs.
      if (clock.elapsed() - running.since > longestRun(config.backup, now)) {
        running.overdue = true
        running.end()
      }
      this.#logEnded()
      return now + HEARD
    }
    // The clock may have been ahead.
    for (const kind of ['backup', 'drill'] as const) this.#begun[kind] = Math.min(this.#begun[kind], now)
    this.#rest = Math.min(this.#rest, now + MINUTE)
    const backup = Math.max(this.#nextBackup(), this.#rest)
    const drill = this.#nextDrill()
    // A manual one, or one of a killed server. A second one would be rejected and reported as a failure.
    if (Math.min(backup, drill) <= now && isBeingCopied(config.data_dir)) return now + MINUTE
    if (backup <= now) this.#begin(beside, 'backup', now)
    else if (drill <= now) this.#begin(beside, 'drill', now)
    const next = this.#isRunning() ? HEARD : LOOKED
    return Math.min(now + next, ...[backup, drill].filter((at) => at > now))
  }

  #isRunning(): boolean {
    return this.#running !== undefined
  }

  /**
   * The next scheduled time since the last attempt: of this process, else the oldest of all destinations, because an
   * interrupted run may have reached only some. It is in the past if the server was down.
   */
  #nextBackup(): number {
    const { clock, config, store } = this.#deps
    const cron = parseCron(config.backup.schedule)
    const begun = this.#begun.backup
    const tries = titlesOf(config.backup.to).map(
      (title) =>
        store.one(
          raw<{ at: number | null }>(
            `select max(started_at) as at from backup_runs where kind = 'backup' and target = ? and started_at <= ?`,
            [title, clock.now()],
          ),
        ).at ?? begun,
    )
    const since = this.#tried ? begun : Math.min(...tries)
    return (cron && nextRun(cron, since)) ?? Infinity
  }

  /** The first drill follows the first backup. */
  #nextDrill(): number {
    const { clock, config, store } = this.#deps
    const states = targetStates(store, config.backup, clock.now())
    const every = DRILLED_EVERY[config.backup.drill]
    return Math.max(Math.min(...states.map((state) => nextDrillOf(state, every))), this.#begun.drill + AGAIN)
  }

  #begin(beside: Beside, kind: BackupRun['kind'], now: number): void {
    const { clock, log } = this.#deps
    this.#begun[kind] = now
    this.#tried ||= kind === 'backup'
    const before = (this.#logged = lastKey(this.#deps.store))
    const child = beside(kind === 'backup' ? ['backup', 'now'] : ['backup', 'drill'])
    const running = (this.#running = { ...child, kind, since: clock.elapsed(), overdue: false })
    log.info('backup_started', { kind })
    this.#done = running.ended
      .then(({ how, said }) => this.#ended({ kind, began: now, before, how, said, overdue: running.overdue }))
      .catch((thrown: unknown) => void log.fault('backup', thrown))
      .finally(() => {
        this.#running = undefined
        this.#rest = clock.now() + MINUTE
        this.#loop.ring()
      })
  }

  async #ended({ before, began, how, kind, overdue, said }: EndedProcess): Promise<void> {
    const { clock, config, store } = this.#deps
    if (this.#stopping) return
    const now = clock.now()
    // A process that was killed or not started has stored no results for the remaining destinations.
    const recorded = new Set(runsSince(store, before).map(({ target }) => target))
    const silent = targetStates(store, config.backup, now).filter(({ target }) => how !== 0 && !recorded.has(target))
    const fault = overdue
      ? `The ${kind} was stopped because it made no progress or took too long; check its destinations.`
      : (lastError(said) ?? `The process of the ${kind} was killed (${how}); check that the machine has enough memory.`)
    const runs = silent.map(({ target }) => ({ kind, target, started_at: began, ended_at: now, fault }))
    if (runs.length > 0) await recordRuns(store, runs, now)
    this.#logEnded()
  }

  /** Logs each destination as soon as it is finished. */
  #logEnded(): void {
    const { log, store } = this.#deps
    for (const { ended_at, fault, key, kind, name, octets, started_at, target } of runsSince(store, this.#logged)) {
      this.#logged = key
      const fields = { kind, target, name, bytes: octets, seconds: (ended_at - started_at) / 1000 }
      if (fault === null) log.info('backup_finished', fields)
      else log.error('backup_failed', { ...fields, error: fault })
    }
  }
}

interface EndedProcess {
  kind: BackupRun['kind']
  began: number
  /** The key of the last row before it. */
  before: number
  how: number | NodeJS.Signals
  said: string
  overdue: boolean
}

function nextDrillOf({ drillFailed, drilled, last }: TargetState, every: number): number {
  if (!last) return Infinity
  const since = drilled?.ended_at ?? -Infinity
  const due = since === -Infinity ? last.ended_at : since + every
  return every === Infinity ? Infinity : Math.max(due, (drillFailed?.ended_at ?? -Infinity) + AGAIN)
}

/** The last sentence on stderr. */
function lastError(said: string): string | undefined {
  const lines = said.split('\n').flatMap((line) => /^(?:<3>)?postrider: (.*[.])$/.exec(line)?.[1] ?? [])
  return lines.at(-1)
}

const runsSince = (store: Store, key: number): BackupRun[] =>
  store.all(raw<BackupRun>('select * from backup_runs where key > ? order by key', [key]))

const lastKey = (store: Store): number =>
  store.one(raw<{ key: number }>('select coalesce(max(key), 0) as key from backup_runs')).key
