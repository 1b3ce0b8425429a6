// The octets of a picture as its reader walks over them: nothing is read past the end, and only what the reader keeps
// is stored. What it keeps is a list of ranges, so that nothing is copied but once, at the end.

/** The octets are not a picture that is taken. The message continues "the picture …". */
export class BadPicture extends Error {}

/** The most pixels on one side, and in all: more take a mail program much memory, however small the file is. */
export const MOST_ON_A_SIDE = 8000
const MOST_PIXELS = 40_000_000
/** The most frames of a moving picture, and their pixels together. */
const MOST_FRAMES = 1000
const MOST_MOVING_PIXELS = 10 * MOST_PIXELS

/** The most parts of a file: each takes its reader some work, however short it is. */
const MOST_PARTS = 20_000

/** What a reader found. */
export interface ReadPicture {
  width: number
  height: number
  /** The picture as it is stored: without what says more than the picture shows. */
  octets: Buffer
}

export class PictureOctets {
  readonly bytes: Buffer
  /** The format, as people call it. */
  readonly format: string
  #end: number
  #at = 0
  readonly #kept: Buffer[] = []
  #keptTo = -1
  #parts = 0
  #frames = 0
  #moving = 0

  constructor(bytes: Buffer, format: string) {
    this.bytes = bytes
    this.format = format
    this.#end = bytes.length
  }

  get at(): number {
    return this.#at
  }

  /** Whether the octets, or the part that the file says it has, are all read. */
  get atEnd(): boolean {
    return this.#at >= this.#end
  }

  fault(words: string): BadPicture {
    return new BadPicture(`is a ${this.format} that ${words}`)
  }

  /** Ends the walk at a place that the file names. Throws when there are fewer octets. */
  endAt(end: number): void {
    if (end > this.bytes.length) throw this.#cut()
    this.#end = end
  }

  /** Moves over so many octets; returns where they begin. */
  skip(count: number): number {
    const from = this.#at
    if (from + count > this.#end) throw this.#cut()
    this.#at += count
    return from
  }

  take(count: number): Buffer {
    const from = this.skip(count)
    return this.bytes.subarray(from, from + count)
  }

  byte(): number {
    return this.bytes[this.skip(1)] ?? 0
  }

  /** Counts a part of the file; returns where it begins. Throws when it is one too many. */
  nextPart(): number {
    if (++this.#parts > MOST_PARTS) throw this.fault('has too many parts: save it again')
    return this.#at
  }

  /** Keeps a range of the octets, up to where the walk is. */
  keep(from: number): void {
    if (from === this.#keptTo) {
      const before = this.#kept.pop() as Buffer
      this.#kept.push(this.bytes.subarray(from - before.length, this.#at))
    } else this.#kept.push(this.bytes.subarray(from, this.#at))
    this.#keptTo = this.#at
  }

  /** Keeps octets that replace some of the file. */
  add(octets: Buffer): void {
    this.#kept.push(octets)
    this.#keptTo = -1
  }

  /** What is kept, as one. */
  whole(): Buffer {
    return Buffer.concat(this.#kept)
  }

  /** Throws when a picture of this size is not taken. */
  checkSize(width: number, height: number): void {
    if (width < 1 || height < 1) throw this.fault('has no width or no height')
    if (width > MOST_ON_A_SIDE || height > MOST_ON_A_SIDE || width * height > MOST_PIXELS)
      throw this.fault(
        `is ${width} by ${height} pixels; at most ${MOST_ON_A_SIDE} on a side and ${MOST_PIXELS / 1_000_000} million in all are taken`,
      )
  }

  /** Counts a frame. Throws when it is empty, lies outside of the picture, or is one too many. */
  checkFrame(
    { height, left, top, width }: { left: number; top: number; width: number; height: number },
    whole: { width: number; height: number },
  ): void {
    if (width < 1 || height < 1) throw this.fault('has a frame without width or height')
    if (left + width > whole.width || top + height > whole.height)
      throw this.fault('has a frame that lies outside of the picture')
    this.#frames++
    this.#moving += width * height
    if (this.#frames > MOST_FRAMES) throw this.fault(`has more than ${MOST_FRAMES} frames`)
    if (this.#moving > MOST_MOVING_PIXELS) throw this.fault('has too many pixels in all frames together')
  }

  #cut(): BadPicture {
    return this.fault('is cut off: save it again, and upload the whole file')
  }
}
