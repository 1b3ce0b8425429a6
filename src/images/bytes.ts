// Reads the bytes of an uploaded image within its bounds, and copies the stored parts. Time and memory are those of one
// copy, for any content.

/** The file is not an acceptable image. The message continues "The image …". */
export class BadImage extends Error {}

/** Larger images take email clients much memory, however small the file is. */
const MOST_ON_A_SIDE = 8000
const MOST_PIXELS = 40_000_000

export interface ReadImage {
  width: number
  height: number
  /** The image without metadata. */
  stored: Buffer
}

export class ImageBytes {
  readonly bytes: Buffer
  at = 0
  readonly #format: string
  readonly #stored: Buffer
  #size = 0

  /** `more`: how many bytes can be stored beyond those of the file. */
  constructor(bytes: Buffer, format: string, more = 0) {
    this.bytes = bytes
    this.#format = format
    this.#stored = Buffer.allocUnsafe(bytes.length + more)
  }

  error(problem: string): BadImage {
    return new BadImage(`is a ${this.#format} that ${problem}`)
  }

  /** Returns the next `count` bytes. Throws if there are fewer. */
  take(count: number): Buffer {
    const from = this.at
    if (from + count > this.bytes.length) throw this.error('is truncated; upload the complete file')
    this.at += count
    return this.bytes.subarray(from, this.at)
  }

  byte(): number {
    return this.take(1).readUInt8()
  }

  store(part: Buffer): void {
    this.#size += part.copy(this.#stored, this.#size)
  }

  /** Stores the bytes from this position to the current one. */
  storeFrom(from: number): void {
    this.store(this.bytes.subarray(from, this.at))
  }

  /** Returns the copy. Throws if the dimensions are missing or too large. */
  done(size: { width: number; height: number } | undefined): ReadImage {
    if (!size) throw this.error('contains no image')
    const { height, width } = size
    if (width < 1 || height < 1) throw this.error('has no width or height')
    if (width > MOST_ON_A_SIDE || height > MOST_ON_A_SIDE || width * height > MOST_PIXELS)
      throw this.error(
        `is ${width} by ${height} pixels; the limit is ${MOST_ON_A_SIDE} per side and ${MOST_PIXELS / 1_000_000} million in total`,
      )
    return { width, height, stored: this.#stored.subarray(0, this.#size) }
  }
}
