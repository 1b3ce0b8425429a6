// A standby of a failover pair: waits until the volume with the data directory is mounted here, and until the server on
// the other machine is certainly gone. Then `postrider standby` starts the server (cli/serve.ts).
import { createServer } from 'node:net'
import { SECOND, type Clock } from '../base/clock.ts'
import { codeOrMessage } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { standbySocket, type StandbyState } from '../base/standby.ts'
import { isVacant } from '../store/instance.ts'
import { bootOf, FRESH, isUnknown, machineOf, readServing, servedElsewhere } from '../store/serving.ts'

const LOOK = SECOND / 4
/** Longer than the interval at which a server writes serving.json, however wrong the clocks of the machines are. */
const ONE_WRITE = 6 * SECOND

export interface StandbyOptions {
  clock: Clock
  dataDir: string
  /** Whether the other machine is known to be off, or to have lost the volume. */
  fenced: boolean
}

/** Decides when a standby starts the server. */
export class Standby {
  readonly #options: StandbyOptions
  /** Whether the volume was not mounted here at some time since this process started. */
  #wasAway = false
  /** The last write of the other server when this process first saw it, and the elapsed time (ms) at that moment. */
  #first: { written: string; at: number } | undefined

  constructor(options: StandbyOptions) {
    this.#options = options
  }

  /**
   * Returns why the server does not start yet, or undefined if it can. Throws TryAgain while another machine serves.
   * Only reads.
   */
  look({ clock, dataDir, fenced } = this.#options): StandbyState | undefined {
    if (isVacant(dataDir)) {
      this.#wasAway = true
      this.#first = undefined
      return { ready: true, reason: `${dataDir} is not mounted.` }
    }
    const found = readServing(dataDir)
    // A corrupt file may be that of any machine: the server starts, and holds the queue.
    if (!found || isUnknown(found)) return undefined
    if (found.machine === machineOf(dataDir))
      return found.handed_over && found.boot === bootOf() && !this.#wasAway
        ? {
            ready: true,
            reason: `This machine handed ${dataDir} over. To serve it here again, run "postrider adopt".`,
          }
        : undefined
    if (found.stopped || fenced) return undefined
    const elapsed = clock.elapsed()
    this.#first ??= { written: found.time, at: elapsed }
    if (found.time !== this.#first.written) throw servedElsewhere(dataDir, found)
    // The clocks of the machines can differ. So the age counts only together with the time that passed here.
    const isFresh = Math.abs(clock.now() - Date.parse(found.time)) < FRESH
    if (elapsed - this.#first.at >= (isFresh ? FRESH : ONE_WRITE)) return undefined
    return { ready: false, reason: `Waiting until ${found.name}, which served ${dataDir} last, is certainly gone.` }
  }
}

/**
 * Resolves when the server can start, or when `stopped` returns true. Answers `postrider health --serving` meanwhile.
 * Throws TryAgain while another machine serves. `settingsFault` returns the error of the present configuration.
 */
export async function standBy(
  options: StandbyOptions & { log: Log; stopped: () => boolean; settingsFault: () => string | undefined },
): Promise<void> {
  const { clock, dataDir, log, settingsFault, stopped } = options
  const standby = new Standby(options)
  let state: StandbyState = { ready: false, reason: 'Starting.' }
  const answers = createServer((socket) => {
    const fault = settingsFault()
    socket.on('error', () => {})
    socket.end(JSON.stringify(fault === undefined ? state : { ready: false, reason: fault }))
  })
  answers.on('error', (error) => log.warn('standby_socket_failed', { error: codeOrMessage(error) }))
  answers.listen(standbySocket(dataDir))
  try {
    for (;;) {
      const next = stopped() ? undefined : standby.look()
      if (!next) return
      if (next.reason !== state.reason) log.always('standing_by', { reason: next.reason })
      state = next
      await new Promise<void>((resolve) => void clock.wake(clock.now() + LOOK, resolve))
    }
  } finally {
    answers.close()
  }
}
