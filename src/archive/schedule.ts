// Backups and drills by the schedule of the configuration (B5, B11). Each runs in a process of its own with low
// priority, which writes the rows of what became of it; this loop starts it.
import { DAY, HOUR, MINUTE, SECOND, type Clock } from '../base/clock.ts'
import { titlesOf } from '../base/backup-target.ts'
import type { Config } from '../base/config.ts'
import { nextRun, parseCron } from '../base/cron.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { DRILLED_EVERY, lateAfter, targetStates, type BackupRun, type TargetState } from '../checks/backups.ts'
import type { Store } from '../store/database.ts'
import { isBeingCopied } from '../store/leavings.ts'
import { raw } from '../store/query.ts'
import { recordRuns } from './runs.ts'

/** A command of ours that runs beside the server. */
export interface BesideProcess {
  pid: number | undefined
  /** How it ended: the exit code, or the signal that ended it, and what it said on stderr. */
  ended: Promise<{ how: number | NodeJS.Signals; said: string }>
  /** Ends it; it leaves nothing behind. */
  end(): void
}

/** Starts `postrider` with these words in a process of its own. */
export type Beside = (words: readonly string[]) => BesideProcess

export interface ScheduleDeps {
  store: Store
  clock: Clock
  log: Log
  config: Pick<Config, 'backup' | 'data_dir'>
  /** undefined: nothing is started, as in the sandbox. */
  beside: Beside | undefined
}

/** A process of this schedule. */
interface Running extends BesideProcess {
  kind: BackupRun['kind']
  /** By the time that passes, not by the date. */
  since: number
  /** Whether it was ended because it took too long. */
  overdue: boolean
}

/** A drill that failed is made again after so long; the schedule is looked at at least so often. */
const AGAIN = DAY
const LOOKED = HOUR
/** How often it is looked for targets that have ended, while others are still under way. */
const HEARD = 5 * SECOND

export class BackupSchedule {
  readonly #deps: ScheduleDeps
  readonly #loop: Loop
  /** When each was begun last by this process: a row may fail to be written, and nothing is begun again at once. */
  readonly #begun: Record<BackupRun['kind'], number>
  #running: Running | undefined
  /** The last row of a run that was logged. */
  #logged = 0
  #done: Promise<void> = Promise.resolve()
  /** Whether this process has begun a backup. */
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

  /** What it does now. */
  get running(): BackupRun['kind'] | undefined {
    return this.#running?.kind
  }

  /** The configuration was read again, or the date was set. */
  ring(): void {
    this.#loop.ring()
  }

  /** Ends a backup under way; it is made again after the next start. */
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
      // What hangs would keep every later one from being made.
      if (clock.elapsed() - running.since > lateAfter(config.backup, now)) {
        running.overdue = true
        running.end()
      }
      this.#logEnded()
      return now + HEARD
    }
    // The clock may have been ahead when they were begun.
    for (const kind of ['backup', 'drill'] as const) this.#begun[kind] = Math.min(this.#begun[kind], now)
    const backup = this.#nextBackup()
    const drill = this.#nextDrill()
    // One by hand, or of a server that was killed: two at once are refused, which would be told as a failure.
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
   * The first time of the schedule since the last try: that of this process, else the oldest of a target, for a server
   * that is ended may have come to the first ones alone. It has passed when the server was down then.
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
    const states = targetStates(store, config.backup, clock.now()).filter(({ givesBack }) => givesBack)
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
    log.info('backup begun', { kind })
    this.#done = running.ended
      .then(({ how, said }) => this.#ended({ kind, began: now, before, how, said, overdue: running.overdue }))
      .catch((thrown: unknown) => void log.fault('a backup', thrown))
      .finally(() => {
        this.#running = undefined
        this.#loop.ring()
      })
  }

  async #ended({ before, began, how, kind, overdue, said }: EndedProcess): Promise<void> {
    const { clock, config, store } = this.#deps
    if (this.#stopping) return
    const now = clock.now()
    // What was killed, or could not begin, says nothing of the targets that it did not come to.
    const told = new Set(runsSince(store, before).map(({ target }) => target))
    const silent = targetStates(store, config.backup, now).filter(
      ({ givesBack, target }) => how !== 0 && !told.has(target) && (kind === 'backup' || givesBack),
    )
    const fault = overdue
      ? `The ${kind} was ended, for it stood still or took too long; see what holds its targets up.`
      : (saidLast(said) ?? `The process of the ${kind} was ended (${how}); see that the machine has memory.`)
    const runs = silent.map(({ target }) => ({ kind, target, started_at: began, ended_at: now, fault }))
    if (runs.length > 0) await recordRuns(store, runs, now)
    this.#logEnded()
  }

  /** Logs what ended since: each target as it ends, not all when the last one has (B13). */
  #logEnded(): void {
    const { log, store } = this.#deps
    for (const { ended_at, fault, key, kind, name, octets, started_at, target } of runsSince(store, this.#logged)) {
      this.#logged = key
      const fields = { kind, target, name, octets, seconds: (ended_at - started_at) / 1000 }
      if (fault === null) log.info('backup ended', fields)
      else log.error('backup failed', { ...fields, error: fault })
    }
  }
}

interface EndedProcess {
  kind: BackupRun['kind']
  /** When it was begun. */
  began: number
  /** The last row before it. */
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

/** The last sentence of a command on stderr. */
function saidLast(said: string): string | undefined {
  const lines = said.split('\n').flatMap((line) => /^(?:<3>)?postrider: (.*[.])$/.exec(line)?.[1] ?? [])
  return lines.at(-1)
}

const runsSince = (store: Store, key: number): BackupRun[] =>
  store.all(raw<BackupRun>('select * from backup_runs where key > ? order by key', [key]))

const lastKey = (store: Store): number =>
  store.one(raw<{ key: number }>('select coalesce(max(key), 0) as key from backup_runs')).key
