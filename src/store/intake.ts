// A message while it is received: kept in memory, or in a file of the spool when it is large or memory is short.
import { SPOOL_ABOVE, type Draft, type Spool } from './spool.ts'

/** The limit in bytes for unfinished messages in memory. Beyond it, small messages are written to disk, too. */
const MAX_HELD = 64 * 1024 * 1024

/** The memory used by the messages of one listener. */
export interface HeldBytes {
  octets: number
}

export class Intake {
  readonly #spool: Spool
  readonly #name: string
  readonly #all: HeldBytes
  /** Bytes that are not in the draft file. */
  readonly #chunks: Buffer[] = []
  #held = 0
  #draft: Draft | undefined
  #kept = false

  /**
   * `name` becomes the name of its file in the spool, if it needs one. `all` is shared by the messages of a listener.
   */
  constructor(spool: Spool, name: string, all: HeldBytes) {
    this.#spool = spool
    this.#name = name
    this.#all = all
  }

  /** Adds bytes. Resolves when they are held or in the file. Rejects with the system's error. */
  async add(chunk: Buffer): Promise<void> {
    this.#chunks.push(chunk)
    this.#held += chunk.length
    this.#all.octets += chunk.length
    if (this.#held <= SPOOL_ABOVE && this.#all.octets <= MAX_HELD && !this.#draft) return
    this.#draft ??= await this.#spool.draft(this.#name)
    if (this.#held > SPOOL_ABOVE || this.#all.octets > MAX_HELD) await this.#spill(this.#draft)
  }

  /** Completes the message. Returns its bytes or its file, which is not yet durable. */
  async end(): Promise<{ file: string } | Buffer> {
    // In memory of its own: a thread that gets a part of a larger buffer gets a copy of the whole buffer.
    if (!this.#draft) return Buffer.concat([Buffer.allocUnsafeSlow(0), ...this.#chunks])
    await this.#spill(this.#draft)
    return { file: this.#draft.path }
  }

  /** Makes the file durable and returns its name in the spool, or null for a message in memory. */
  async keep(): Promise<string | null> {
    if (!this.#draft) return null
    const name = await this.#draft.keep()
    this.#kept = true
    return name
  }

  /** Frees the memory, and deletes the file unless it was kept. */
  async close(): Promise<void> {
    this.#all.octets -= this.#held
    this.#held = 0
    if (!this.#kept) await this.#draft?.drop()
  }

  async #spill(draft: Draft): Promise<void> {
    const bytes = Buffer.concat(this.#chunks.splice(0))
    this.#all.octets -= this.#held
    this.#held = 0
    await draft.write(bytes)
  }
}
