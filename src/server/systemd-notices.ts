// What the service manager is told (sd_notify(3)): that the server is ready, reads its configuration again, stops, what
// it does, and that it lives (D179).
//
// It lives when its event loop turns and its store commits: the notice of life comes from the loop itself, and is left
// out after a turn or a commit that took too long. Where nobody listens, nothing is sent.
import { forLine } from '../base/clean-text.ts'
import { MINUTE, SECOND, type Cancel, type Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { datagramsTo } from '../base/native.ts'
import type { Troubles } from '../base/trouble.ts'
import { raw } from '../store/query.ts'
import type { Store } from '../store/database.ts'

/** How often the service manager hears that the server lives; a turn or a commit that is later than this hangs. */
const LIFE = 20 * SECOND
/** The status is told at most so often. */
const STATUS = 5 * SECOND
const LOOK = SECOND
/** A migration may take this long from each notice on. */
const EXTENSION = 5 * MINUTE

const VARIABLES = ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID'] as const

export interface SystemdNoticesDeps {
  clock: Clock
  log: Log
  environment: Record<string, string | undefined>
  /** Returns a function that sends to an address, if there is a way; the C library's, except in tests. */
  sender?: (address: string) => ((text: string) => boolean) | undefined
  pid?: number
}

/** What the server says of itself while it runs. */
export interface Life {
  /** A few words on the state of the server. */
  status: () => string
  /** How long (ms) the slowest commit since the last call took. */
  slowestCommit: () => number
}

export class SystemdNotices {
  readonly #clock: Clock
  readonly #send: (text: string) => void
  /** Milliseconds between notices of life; undefined: nobody waits for them. */
  readonly #every: number | undefined
  readonly #isThere: boolean
  #said = ''
  #cancel: Cancel = () => {}

  /** Takes the variables out of the environment, so that no child speaks for the server. */
  constructor({ clock, environment, log, pid = process.pid, sender = datagramsTo }: SystemdNoticesDeps) {
    this.#clock = clock
    const { NOTIFY_SOCKET: address, WATCHDOG_PID: watched, WATCHDOG_USEC: patience } = environment
    for (const name of VARIABLES) delete environment[name]
    const send = address ? sender(address) : undefined
    this.#isThere = send !== undefined
    let failed = !address
    const missed = (): void => {
      if (!failed) log.warn('the service manager is not told', { address })
      failed = true
    }
    if (!send) missed()
    this.#send = (text) => void (send && !send(`${text}\n`) && missed())
    const limit = Number(patience) / 1000
    const isOurs = watched === undefined || watched === '' || watched === String(pid)
    this.#every = limit > 0 && isOurs ? Math.min(LIFE, limit / 3) : undefined
  }

  /** The listeners are open, or the configuration was read again. */
  ready(): void {
    this.#send('READY=1')
  }

  /** The configuration is read again; `ready` follows. */
  reloading(): void {
    // What systemd compares it with is the clock of the machine since its start.
    this.#send(`RELOADING=1\nMONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`)
  }

  stopping(): void {
    this.#cancel()
    this.#send('STOPPING=1')
  }

  /** The start takes longer, for what `status` says; a line, so that it becomes no other variable. */
  extend(status: string): void {
    this.#send(`EXTEND_TIMEOUT_USEC=${EXTENSION * 1000}\nSTATUS=${forLine(status)}`)
  }

  /** Tells the status when it has changed, and that the server lives, until it stops. */
  follow({ slowestCommit, status }: Life): void {
    if (!this.#isThere) return
    const clock = this.#clock
    let looked = clock.elapsed()
    let latest = 0
    let told = looked
    let alive = looked
    const tell = (): void => {
      try {
        const text = forLine(status())
        if (text !== this.#said) this.#send(`STATUS=${text}`)
        this.#said = text
      } catch {
        // The disk does not answer: server/watch.ts reports it.
      }
    }
    const look = (): void => {
      const now = clock.elapsed()
      latest = Math.max(latest, now - looked - LOOK, slowestCommit())
      looked = now
      if (this.#every !== undefined && now - alive >= this.#every) {
        if (latest < this.#every) this.#send('WATCHDOG=1')
        alive = now
        latest = 0
      }
      if (now - told >= STATUS) {
        told = now
        tell()
      }
      this.#cancel = clock.wake(clock.now() + LOOK, look)
    }
    if (this.#every !== undefined) this.#send('WATCHDOG=1')
    tell()
    this.#cancel = clock.wake(clock.now() + LOOK, look)
  }
}

/** More recipients than this are not counted for a status. */
const COUNTED = 10_000

/** The state and the queue in a few words. */
export function statusOf({ store, troubles }: { store: Store; troubles: Troubles }): string {
  const [trouble] = troubles.list()
  const { waiting } = store.one(
    raw<{ waiting: number }>(
      `select count(*) as waiting from (select 1 from deliveries where status = 'queued' limit ${COUNTED})`,
    ),
  )
  const queue = `${waiting < COUNTED ? waiting : `${COUNTED} or more`} recipient${waiting === 1 ? '' : 's'} in the queue`
  return trouble ? `degraded: ${trouble.sentence} ${queue}` : `ok: ${queue}`
}
