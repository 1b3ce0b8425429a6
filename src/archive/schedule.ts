// Backups and drills by the schedule of the configuration (B5, B11). Each runs in a process of its own with low
// priority, which writes the rows of what became of it; this loop starts it.
import { DAY, HOUR, SECOND, type Clock } from '../base/clock.ts'
import { titlesOf } from '../base/backup-target.ts'
import type { Config } from '../base/config.ts'
import { nextRun, parseCron } from '../base/cron.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { DRILLED_EVERY, targetStates, type BackupRun, type TargetState } from '../checks/backups.ts'
import type { Store } from '../store/database.ts'
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
  config: Pick<Config, 'backup'>
  /** undefined: nothing is started, as in the sandbox. */
  beside: Beside | undefined
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
  #running: BesideProcess | undefined
  /** The last row of a run that was logged. */
  #logged = 0
  #kind: BackupRun['kind'] | undefined
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
    return this.#running && this.#kind
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
    const { beside, config } = this.#deps
    if (beside === undefined || config.backup.to.length === 0) return null
    if (this.#isRunning()) {
      this.#logEnded()
      return now + HEARD
    }
    const backup = this.#nextBackup()
    const drill = this.#nextDrill()
    if (backup <= now) this.#begin(beside, 'backup', now)
    else if (drill <= now) this.#begin(beside, 'drill', now)
    const next = this.#isRunning() ? HEARD : LOOKED
    return Math.min(now + next, ...[backup, drill].filter((at) => at > now))
  }

  #isRunning(): boolean {
    return this.#running !== undefined
  }

  /** The first time of the schedule since the last try; it has passed when the server was down then. */
  #nextBackup(): number {
    const { clock, config, store } = this.#deps
    const cron = parseCron(config.backup.schedule)
    const last = store.one(
      raw<{ at: number | null }>(
        `select max(started_at) as at from backup_runs where kind = 'backup' and started_at <= ?`,
        [clock.now()],
      ),
    )
    const since = this.#tried ? Math.max(last.at ?? 0, this.#begun.backup) : (last.at ?? this.#begun.backup)
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
    const { log } = this.#deps
    this.#begun[kind] = now
    this.#kind = kind
    this.#tried ||= kind === 'backup'
    const before = (this.#logged = lastKey(this.#deps.store))
    const running = (this.#running = beside(kind === 'backup' ? ['backup', 'now'] : ['backup', 'drill']))
    log.info('backup begun', { kind })
    this.#done = running.ended
      .then(({ how, said }) => this.#ended(kind, now, before, how, said))
      .catch((thrown: unknown) => void log.fault('a backup', thrown))
      .finally(() => {
        this.#running = undefined
        this.#loop.ring()
      })
  }

  async #ended(
    kind: BackupRun['kind'],
    began: number,
    before: number,
    how: number | NodeJS.Signals,
    said: string,
  ): Promise<void> {
    const { clock, config, store } = this.#deps
    if (this.#stopping) return
    const now = clock.now()
    const told = new Set(runsSince(store, before).map(({ target }) => target))
    // It was killed, or could not begin; what ended before that has its row. A drill has none of what only stores.
    if (kind === 'backup' || (how !== 0 && told.size === 0)) {
      const fault = saidLast(said) ?? `The process of the ${kind} was ended (${how}); see that the machine has memory.`
      const runs = titlesOf(config.backup.to)
        .filter((target) => !told.has(target))
        .map((target) => ({ kind, target, started_at: began, ended_at: now, fault }))
      await recordRuns(store, runs, now)
    }
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
