// Reads a stream of bytes in pieces of a given size. Buffers at most one piece and one chunk of the source.

export class ByteReader {
  #source: AsyncIterator<Uint8Array>
  #held: Uint8Array[] = []
  #size = 0
  #done = false

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  /** The next `size` bytes, or fewer at the end of the stream. */
  async take(size: number): Promise<Buffer> {
    while (this.#size < size && (await this.#more()));
    return this.#cut(Math.min(size, this.#size))
  }

  async ended(): Promise<boolean> {
    while (this.#size === 0 && (await this.#more()));
    return this.#size === 0
  }

  async close(): Promise<void> {
    this.#done = true
    await this.#source.return?.()
  }

  async #more(): Promise<boolean> {
    if (this.#done) return false
    const { done, value } = await this.#source.next()
    if (done) {
      this.#done = true
      return false
    }
    if (value.length > 0) {
      this.#held.push(value)
      this.#size += value.length
    }
    return true
  }

  #cut(size: number): Buffer {
    const parts: Uint8Array[] = []
    for (let left = size; left > 0;) {
      const first = this.#held.shift() ?? new Uint8Array()
      parts.push(first.length > left ? first.subarray(0, left) : first)
      if (first.length > left) this.#held.unshift(first.subarray(left))
      left -= Math.min(first.length, left)
    }
    this.#size -= size
    const [only] = parts
    return parts.length === 1 && only
      ? Buffer.from(only.buffer, only.byteOffset, only.length)
      : Buffer.concat(parts, size)
  }
}

/** Calls `held` while the reader waits for the stream. */
export async function* heldWhile(
  bytes: AsyncIterable<Uint8Array>,
  held: (on: boolean) => void,
): AsyncIterable<Uint8Array> {
  held(true)
  for await (const piece of bytes) {
    held(false)
    yield piece
    held(true)
  }
  held(false)
}
