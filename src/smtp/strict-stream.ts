// Splits a client's octets into commands and messages: smtp-server's parser, with a check of every octet. A line ends
// with CRLF only (RFC 5321 §2.3.8), and a message with CRLF.CRLF, found in one pass.
import { SMTPStream } from 'smtp-server/lib/smtp-stream.js'

const CR = 0x0d
const LF = 0x0a
const DOT = 0x2e
const LINE_DOT = Buffer.from('\r\n.')

/** True when the octets hold a CR without LF or an LF without CR; `previous` is the octet before them. */
export function hasBareLineEnd(bytes: Uint8Array, previous: number): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (previous === CR && buffer.length > 0 && buffer[0] !== LF) return true
  for (let at = buffer.indexOf(LF); at >= 0; at = buffer.indexOf(LF, at + 1))
    if ((at === 0 ? previous : buffer[at - 1]) !== CR) return true
  for (let at = buffer.indexOf(CR); at >= 0; at = buffer.indexOf(CR, at + 1))
    if (at + 1 < buffer.length && buffer[at + 1] !== LF) return true
  return false
}

/** The library's parser, with a check of every octet. */
export class StrictStream extends SMTPStream {
  /** A bare CR or LF was seen: the message is not accepted, and later octets are not read. */
  broken = false
  #previous = 0
  /** Octets since the last reply. */
  received = 0
  #inside = false
  /** The next octet of the message is at the beginning of a line. */
  #lineBegins = false

  /** Looks for bare line ends in each chunk before the library reads it. */
  override _write(chunk: Buffer, encoding: BufferEncoding | 'buffer', next: (error?: Error | null) => void): void {
    // The library calls again with the rest of a chunk, after a final dot or after DATA:
    // that rest was checked with the chunk.
    if (this.#inside) return super._write(chunk, encoding, next)
    this.received += chunk?.length ?? 0
    // All clear text after STARTTLS is dropped.
    if (!this.isClosed && !this.broken && chunk?.length > 0) {
      this.broken = hasBareLineEnd(chunk, this.#previous)
      this.#previous = chunk.at(-1)!
    }
    if (!this.isClosed && this.broken && !this._dataMode) return this.onbroken()
    this.#inside = true
    super._write(chunk, encoding, (error) => {
      this.#inside = false
      next(error)
    })
  }

  /** Removes doubled dots (RFC 5321 §4.5.2) and finds CRLF.CRLF in one pass. The library waits a turn of the event loop
   *  at each dot, so that a mail made of dots would occupy the process for minutes. */
  override _feedDataStream(chunk: Buffer, done: (error?: Error | null) => void): void {
    const stream = this._dataStream
    if (!stream) return done()
    const bytes = this._lastBytes ? Buffer.concat([this._lastBytes, chunk]) : chunk
    const begins = this._atDataStart || this.#lineBegins
    this._lastBytes = false
    this._atDataStart = false
    const text = Buffer.allocUnsafe(bytes.length)
    let length = 0
    let from = 0
    const take = (to: number): void => void (length += bytes.copy(text, length, from, to))
    const after = (at: number): number => (at < 0 ? -1 : at + 2)
    for (let at = begins && bytes[0] === DOT ? 0 : after(bytes.indexOf(LINE_DOT)); at >= 0;) {
      if (at + 1 === bytes.length || (bytes[at + 1] === CR && at + 2 === bytes.length)) {
        // The octet after the dot decides, and has not arrived yet.
        take(at)
        return this.#pass(text.subarray(0, length), bytes.subarray(at), true, done)
      }
      take(at)
      if (bytes[at + 1] === CR && bytes[at + 2] === LF) {
        this.#lineBegins = false
        this._countDataBytes(length)
        return this._endDataMode(text.subarray(0, length), bytes.subarray(at + 3), done)
      }
      from = at + 1
      at = after(bytes.indexOf(LINE_DOT, from))
    }
    const half = from < bytes.length && bytes.at(-1) === CR
    take(half ? bytes.length - 1 : bytes.length)
    const ended = bytes.length > 1 ? bytes.at(-1) === LF && bytes.at(-2) === CR : begins && bytes.length === 0
    this.#pass(text.subarray(0, length), bytes.subarray(bytes.length - (half ? 1 : 0)), ended, done)
  }

  /** Passes on the octets that are surely text; the rest waits for the next chunk. */
  #pass(text: Buffer, rest: Buffer, lineBegins: boolean, done: () => void): void {
    const stream = this._dataStream!
    this.#lineBegins = lineBegins
    this._lastBytes = rest.length > 0 && rest
    this._countDataBytes(text.length)
    if (text.length === 0 || !stream.writable || stream.write(text) || stream.destroyed) return done()
    const go = (): void => {
      stream.off('drain', go).off('close', go)
      done()
    }
    stream.on('drain', go).on('close', go)
  }

  /**
   * The library clears its callback after running it. By then it may be the callback of the next message, which would
   * never run: here it is cleared before.
   */
  override continue(): void {
    const resume = this._continueCallback
    this._continueCallback = typeof resume !== 'function'
    if (typeof resume === 'function') resume()
  }

  /** Text without a line end is not a command. */
  override _flushData(): void {}

  /** Called at a bare line end outside a message; the session sets it. */
  onbroken(): void {}
}
