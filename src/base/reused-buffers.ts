// Buffers that are used again. A mail of a campaign is 10 to 20 KB that live until an exchanger has taken them: as new
// memory for each mail they are garbage that V8 does not see in its heap, and collects late.

/** Sizes are multiples of this, so that mails of nearly the same size share buffers. */
const STEP = 8 * 1024
/** The most octets of one buffer that is kept, and of all. */
const LARGEST = 128 * 1024
const MOST = 2 * 1024 * 1024

export class ReusedBuffers {
  /** Buffers that are not in use, the latest last. */
  readonly #free: Buffer<ArrayBuffer>[] = []
  /** The memory of buffers in use. */
  readonly #lent = new WeakSet<ArrayBufferLike>()
  #kept = 0

  /** A buffer of at least `octets`, with any content. */
  take(octets: number): Buffer<ArrayBuffer> {
    let buffer = this.#free.pop()
    if (buffer) this.#kept -= buffer.length
    // Another size is wanted now: what is too small is left to the garbage collector.
    if (!buffer || buffer.length < octets) buffer = Buffer.allocUnsafeSlow(Math.ceil(octets / STEP) * STEP)
    this.#lent.add(buffer.buffer)
    return buffer
  }

  /**
   * Takes back the memory of a buffer from `take`, which nobody may read or write any more; false for any other memory.
   */
  giveBack({ buffer }: Uint8Array): boolean {
    if (!(buffer instanceof ArrayBuffer) || !this.#lent.delete(buffer)) return false
    const { byteLength } = buffer
    if (byteLength <= LARGEST && this.#kept + byteLength <= MOST) {
      this.#free.push(Buffer.from(buffer))
      this.#kept += byteLength
    }
    return true
  }
}
