// Notifies systemd with `systemd-notify` (sd_notify(3)) that the server is ready, reloads its configuration, stops and
// is alive, and of its status (D179). The keep-alive comes from the event loop, and is left out after a turn of the
// loop or a commit that took too long. Without $NOTIFY_SOCKET it sends no notifications.
import { execFile } from 'node:child_process'
import { forLine } from '../base/clean-text.ts'
import { MINUTE, SECOND, type Cancel, type Clock } from '../base/clock.ts'
import { codeOrMessage } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { counted } from '../base/text.ts'
import type { Troubles } from '../base/trouble.ts'
import { raw } from '../store/query.ts'
import type { Store } from '../store/database.ts'

/** The interval of status reports and keep-alives. A turn of the loop, or a commit, that takes longer is a hang. */
const LIFE = 20 * SECOND
const LOOK = SECOND
/** A migration can take this long after each notification. */
const EXTENSION = 5 * MINUTE

const VARIABLES = ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID'] as const

/** Sends variables, each "NAME=value", to the address. */
export type Notify = (address: string, variables: readonly string[]) => Promise<void>

export interface SystemdNoticesDeps {
  clock: Clock
  log: Log
  environment: Record<string, string | undefined>
  notify?: Notify
  pid?: number
}

export interface Life {
  status: () => string
  /** The duration (ms) of the slowest commit since the last call. */
  slowestCommit: () => number
}

const systemdNotify: Notify = (address, variables) =>
  new Promise((done, fail) =>
    execFile('systemd-notify', variables, { env: { ...process.env, NOTIFY_SOCKET: address } }, (error) =>
      error ? fail(error) : done(),
    ),
  )

export class SystemdNotices {
  readonly #clock: Clock
  readonly #log: Log
  readonly #notify: Notify
  readonly #address: string | undefined
  readonly #every: number
  readonly #isWatched: boolean
  /** One after the other, because systemd must not receive READY before RELOADING. */
  #sent = Promise.resolve()
  #failed = false
  #status = ''
  #cancel: Cancel = () => {}

  /** Removes the variables from the environment, so that no child process notifies systemd for the server. */
  constructor({ clock, environment, log, notify = systemdNotify, pid = process.pid }: SystemdNoticesDeps) {
    this.#clock = clock
    this.#log = log
    this.#notify = notify
    const { NOTIFY_SOCKET: address, WATCHDOG_PID: watched, WATCHDOG_USEC: patience } = environment
    for (const name of VARIABLES) delete environment[name]
    this.#address = address || undefined
    const limit = Number(patience) / 1000
    this.#isWatched = limit > 0 && (!watched || watched === String(pid))
    this.#every = this.#isWatched ? Math.min(LIFE, limit / 3) : LIFE
  }

  /** The listeners are open, or the configuration was reloaded. */
  ready(): void {
    this.#send('READY=1')
  }

  /** Notifies that a reload starts. `ready` follows. */
  reloading(): void {
    // systemd compares it with the time since the machine started.
    this.#send('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`)
  }

  stopping(): void {
    this.#cancel()
    this.#send('STOPPING=1')
  }

  /** Resolves when all notifications were sent. Otherwise the last ones would end with the process. */
  sent(): Promise<void> {
    return this.#sent
  }

  /** Extends the start timeout, for the reason in `status`. A standby, which is ready before it starts, stays alive. */
  extend(status: string): void {
    const alive = this.#isWatched ? ['WATCHDOG=1'] : []
    this.#send(`EXTEND_TIMEOUT_USEC=${EXTENSION * 1000}`, `STATUS=${forLine(status)}`, ...alive)
  }

  /** Reports a changed status, and that the server is alive, until it stops. */
  follow({ slowestCommit, status }: Life): void {
    if (this.#address === undefined) return
    this.#cancel()
    const clock = this.#clock
    let looked = clock.elapsed()
    let reportedAt = looked
    let latest = 0
    const tell = (): void => {
      const alive = this.#isWatched && latest < this.#every ? ['WATCHDOG=1'] : []
      const changed = this.#changed(status)
      if (alive.length + changed.length > 0) this.#send(...alive, ...changed)
      reportedAt = looked
      latest = 0
    }
    const look = (): void => {
      const now = clock.elapsed()
      latest = Math.max(latest, now - looked - LOOK, slowestCommit())
      looked = now
      if (now - reportedAt >= this.#every) tell()
      this.#cancel = clock.wake(clock.now() + LOOK, look)
    }
    tell()
    this.#cancel = clock.wake(clock.now() + LOOK, look)
  }

  #changed(status: () => string): string[] {
    try {
      const text = forLine(status())
      if (text === this.#status) return []
      this.#status = text
      return [`STATUS=${text}`]
    } catch {
      // The disk does not respond: server/watch.ts reports it.
      return []
    }
  }

  #send(...variables: string[]): void {
    const address = this.#address
    if (address === undefined) return
    this.#sent = this.#sent
      .then(() => this.#notify(address, variables))
      .catch((thrown: unknown) => {
        if (!this.#failed) this.#log.warn('systemd_notify_failed', { address, error: codeOrMessage(thrown) })
        this.#failed = true
      })
  }
}

/** More recipients than this are not counted for a status. */
const COUNTED = 10_000

/** Returns the state and the size of the queue in a few words. */
export function statusOf({ store, troubles }: { store: Store; troubles: Troubles }): string {
  const [trouble] = troubles.list()
  const { waiting } = store.one(
    raw<{ waiting: number }>(
      `select count(*) as waiting from (select 1 from deliveries where status = 'queued' limit ${COUNTED})`,
    ),
  )
  const queue = `${waiting < COUNTED ? counted(waiting, 'recipient') : `${COUNTED} or more recipients`} in the queue`
  return trouble ? `degraded: ${trouble.sentence} ${queue}` : `ok: ${queue}`
}
