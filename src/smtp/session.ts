// One inbound session, on smtp-server's connection with what that leaves to its user: a line ends with CRLF and nothing else (RFC
// 5321 §2.3.8; a bare CR or LF ends the session, so that no two servers can disagree where a message ends), replies carry enhanced
// codes of our own, errors are counted, and a server that stops says 421.
import { SMTPConnection } from 'smtp-server/lib/smtp-connection.js'
import { SMTPStream } from 'smtp-server/lib/smtp-stream.js'

const CR = 0x0d
const LF = 0x0a
/** A command line may be this long: 512 octets (RFC 5321 §4.5.3.1.4) and what the extensions add. */
const MAX_COMMAND = 2048
/** A client that was refused this often is only trying. */
const MAX_ERRORS = 50

/** True when the bytes hold a CR without LF or an LF without CR; `previous` is the byte before them. */
export function hasBareLineEnd(bytes: Uint8Array, previous: number): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (previous === CR && buffer.length > 0 && buffer[0] !== LF) return true
  for (let at = buffer.indexOf(LF); at >= 0; at = buffer.indexOf(LF, at + 1))
    if ((at === 0 ? previous : buffer[at - 1]) !== CR) return true
  for (let at = buffer.indexOf(CR); at >= 0; at = buffer.indexOf(CR, at + 1))
    if (at + 1 < buffer.length && buffer[at + 1] !== LF) return true
  return false
}

/** The library's parser, behind a look at every byte. */
class StrictStream extends SMTPStream {
  /** A bare CR or LF was seen: what came is not believed, and what follows is not read. */
  broken = false
  #previous = 0

  override _write(chunk: Buffer, encoding: BufferEncoding | 'buffer', next: (error?: Error | null) => void): void {
    if (!this.broken && chunk?.length > 0) {
      this.broken = hasBareLineEnd(chunk, this.#previous)
      this.#previous = chunk.at(-1)!
      if (this.broken && !this._dataMode) return this.onbroken()
    }
    super._write(chunk, encoding, next)
  }

  onbroken(): void {}
}

/** The parser of each session: made before the session has fields, and kept when its connection is gone, since a message may still be
 *  under judgement then. */
const streams = new WeakMap<SMTPConnection, StrictStream>()

export class InboundSession extends SMTPConnection {
  #errors = 0
  #retiring = false

  /** The library waits 100 ms for clients that talk too soon; every mail server would pay for it. */
  override init(): void {
    this._setListeners(() => this.connectionReady())
  }

  override _createParser(): SMTPStream {
    const parser = new StrictStream({ maxCommandLength: MAX_COMMAND })
    parser.oncommand = (command, callback) => this._onCommand(command, callback)
    parser.onbroken = () => this.send(521, BARE_LINE_END)
    parser.on('error', () => this.send(421, '4.5.2 Command line too long'))
    streams.set(this, parser)
    return parser
  }

  /** Whether the message that has just come in held a bare CR or LF. */
  get broken(): boolean {
    return streams.get(this)?.broken === true
  }

  /** A text that begins with an enhanced code has its own; 421 and 521 end the session (RFC 5321 §3.8). */
  override send(code: number, data?: string | string[] | null, context?: string | false): void {
    const own = typeof data === 'string' && /^[245]\.\d{1,3}\.\d{1,3} /.test(data)
    super.send(code, data, own ? false : context)
    if (code >= 400 && code !== 421 && ++this.#errors >= MAX_ERRORS)
      super.send(421, '4.7.0 Too many errors; goodbye', false)
    else if (code === 521) this.close()
    else if (this.#retiring && !this.#busy) super.send(421, SHUTTING_DOWN, false)
  }

  get #busy(): boolean {
    return this._handlerPending || Boolean(this._dataStream)
  }

  /** Ends the session: at once when it is idle, else after the answer that it waits for. */
  retire(): void {
    if (this.#retiring) return
    this.#retiring = true
    if (!this.#busy) super.send(421, SHUTTING_DOWN, false)
  }

  /** Ends it without a word. */
  destroy(): void {
    this._socket.destroy()
  }
}

export const BARE_LINE_END = '5.5.2 A line must end with CR LF; bare CR or LF is not accepted'
const SHUTTING_DOWN = '4.3.2 Shutting down; try again later'
