// A message while it comes in: held in memory, or in a file of the spool once it is large or many are under way.
import { SPOOL_ABOVE, type Draft, type Spool } from './spool.ts'

/** Octets of unfinished messages that all sessions together hold in memory; beyond, also small ones go to the disk. */
const MAX_HELD = 64 * 1024 * 1024

/** What the messages of one door hold in memory. */
export interface Held {
  octets: number
}

export class Intake {
  readonly #spool: Spool
  readonly #name: string
  readonly #all: Held
  /** What is not in the draft. */
  readonly #chunks: Buffer[] = []
  #held = 0
  #draft: Draft | undefined
  #kept = false

  /** `name` is what its file in the spool is called by, if it comes to one; `all` is shared by the messages of a door. */
  constructor(spool: Spool, name: string, all: Held) {
    this.#spool = spool
    this.#name = name
    this.#all = all
  }

  async add(chunk: Buffer): Promise<void> {
    this.#chunks.push(chunk)
    this.#held += chunk.length
    this.#all.octets += chunk.length
    if (this.#held <= SPOOL_ABOVE && this.#all.octets <= MAX_HELD && !this.#draft) return
    this.#draft ??= await this.#spool.draft(this.#name)
    if (this.#held > SPOOL_ABOVE || this.#all.octets > MAX_HELD) await this.#spill(this.#draft)
  }

  /** After the last octet: where the message lies, not yet durable. */
  async end(): Promise<{ file: string } | Buffer> {
    if (!this.#draft) return Buffer.concat(this.#chunks)
    await this.#spill(this.#draft)
    return { file: this.#draft.path }
  }

  /** Makes a file durable; returns its name in the spool, null for what is in memory. */
  async keep(): Promise<string | null> {
    if (!this.#draft) return null
    const name = await this.#draft.keep()
    this.#kept = true
    return name
  }

  /** Gives the memory back, and the file unless it was kept. */
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
