// A stream of octets, taken in pieces of the size that the reader wants. It holds one piece and what came with it.

export class Octets {
  #source: AsyncIterator<Uint8Array>
  #held: Uint8Array[] = []
  #size = 0
  #done = false

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  /** The next `size` octets; fewer where the stream ends. */
  async take(size: number): Promise<Buffer> {
    while (this.#size < size && (await this.#more()));
    return this.#cut(Math.min(size, this.#size))
  }

  /** Whether no octet is left. */
  async ended(): Promise<boolean> {
    while (this.#size === 0 && (await this.#more()));
    return this.#size === 0
  }

  /** The text up to the next end of a line, of at most `most` octets with it; undefined when there is none. */
  async line(most: number): Promise<string | undefined> {
    for (let looked = 0; ;) {
      const end = this.#indexOfEnd(looked)
      if (end >= most) return undefined
      if (end >= 0) {
        const text = this.#cut(end).toString('latin1')
        this.#cut(1)
        return text
      }
      looked = this.#size
      if (looked >= most || !(await this.#more())) return undefined
    }
  }

  /** Ends the source where it is not wanted any more. */
  async close(): Promise<void> {
    this.#done = true
    await this.#source.return?.()
  }

  #indexOfEnd(from: number): number {
    let before = 0
    for (const piece of this.#held) {
      const at = before + piece.length > from ? piece.indexOf(0x0a, Math.max(0, from - before)) : -1
      if (at >= 0) return before + at
      before += piece.length
    }
    return -1
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

/** A stream that says while it is waited for. */
export async function* heldWhile(
  octets: AsyncIterable<Uint8Array>,
  held: (on: boolean) => void,
): AsyncIterable<Uint8Array> {
  held(true)
  for await (const piece of octets) {
    held(false)
    yield piece
    held(true)
  }
  held(false)
}
