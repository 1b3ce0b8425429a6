// Writes to serving.json every five seconds that this server is in service. Stops it if the file names another machine,
// and a server of a failover pair also if it cannot write the file. While the queue is held it only reads the file,
// until `postrider adopt` has written it (D209).
import { iso, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { digestsOf } from '../base/pair-settings.ts'
import type { Troubles } from '../base/trouble.ts'
import {
  beginServing,
  goOnServing,
  heldDetail,
  isUnknown,
  readServing,
  whyHeld,
  type ServedPlace,
  type ServingNote,
} from '../store/serving.ts'

const EVERY = 5 * SECOND
/** A server of a failover pair stops when its last write is older: the other machine may have the volume by then. */
const PATIENCE = 15 * SECOND

interface ServingDeps {
  clock: Clock
  config: Config
  troubles: Pick<Troubles, 'report' | 'clear'>
  /** Whether this server is one of a failover pair. */
  pair: boolean
}

export class ServingMark {
  readonly #deps: ServingDeps
  #serving: ServingNote
  #adopted: () => void = () => {}
  #at = -Infinity
  #written: number
  #writing: Promise<void> | undefined

  constructor(deps: ServingDeps, serving: ServingNote) {
    this.#deps = deps
    this.#serving = serving
    this.#written = deps.clock.elapsed()
    this.#tellHeld()
  }

  /** The former server, while the queue is held. */
  get held(): ServedPlace | undefined {
    return this.#serving.held
  }

  /** Calls `work` once when the queue is released. */
  onAdopted(work: () => void): void {
    this.#adopted = work
  }

  /** Called every second. Throws an OperatorError when another machine serves the data directory, or may do so. */
  look({ clock, config, pair, troubles } = this.#deps): void {
    const elapsed = clock.elapsed()
    // First, because a read can wait for a disk that does not respond.
    if (pair && !this.held && elapsed - this.#written >= PATIENCE)
      throw new OperatorError(
        `serving.json in ${config.data_dir} could not be written for ${PATIENCE / SECOND} s, so this server stops; otherwise the other machine of the pair could send the same email.`,
      )
    if (!this.held && (this.#writing || elapsed - this.#at < EVERY)) return
    const found = readServing(config.data_dir)
    if (found && !isUnknown(found) && found.machine !== this.#serving.machine)
      throw new OperatorError(
        `Another server took over ${config.data_dir} at ${found.time}, so this server stops; otherwise both would send the same email.`,
      )
    if (!this.held) return this.#write(elapsed)
    if (!found || found.held) return this.#tellHeld()
    this.#serving = found
    troubles.clear('machine')
    this.#adopted()
  }

  /** Resolves when the last write has finished. */
  async stop(): Promise<void> {
    await this.#writing
  }

  /** Records a clean stop, so that another machine can start at once. Without the record it waits for 20 s. */
  leave(handover: boolean, { config, troubles } = this.#deps): void {
    if (readServing(config.data_dir)?.machine !== this.#serving.machine) return
    try {
      beginServing(config.data_dir, { ...this.#serving, stopped: true, ...(handover && { handed_over: true }) })
    } catch (thrown) {
      troubles.report('serving', 'The clean stop cannot be recorded in serving.json.', thrown)
    }
  }

  #tellHeld(): void {
    const { held } = this
    if (held) this.#deps.troubles.report('machine', whyHeld(held), new OperatorError(`Held: ${heldDetail(held)}.`))
  }

  #write(elapsed: number, { clock, config, troubles } = this.#deps): void {
    this.#at = elapsed
    this.#serving.time = iso(clock.now())
    this.#serving.settings = digestsOf(config)
    this.#writing = goOnServing(config.data_dir, this.#serving)
      .then(() => {
        this.#written = clock.elapsed()
        troubles.clear('serving')
      })
      .catch((thrown: unknown) => this.#failed(thrown))
      .finally(() => (this.#writing = undefined))
  }

  #failed(thrown: unknown): void {
    this.#deps.troubles.report(
      'serving',
      'serving.json cannot be written. It records which machine runs this installation.',
      thrown,
    )
  }
}
