// One inbound session, on smtp-server's connection with what that leaves to its user: a line ends with CRLF and nothing else (RFC
// 5321 §2.3.8; a bare CR or LF ends the session, so that no two servers can disagree where a message ends), replies carry enhanced
// codes of our own, errors are counted, and a server that stops says 421.
import { isUtf8 } from 'node:buffer'
import { SMTPConnection } from 'smtp-server/lib/smtp-connection.js'
import { SMTPStream } from 'smtp-server/lib/smtp-stream.js'

const CR = 0x0d
const LF = 0x0a
const DOT = 0x2e
const LINE_DOT = Buffer.from('\r\n.')
/** A command line may be this long: 512 octets (RFC 5321 §4.5.3.1.4) and what the extensions add. */
const MAX_COMMAND = 2048
/** A client that was refused this often is only trying. */
const MAX_ERRORS = 50
/** The parameters of the extensions that are offered (RFC 1870, RFC 6152, RFC 6531). */
const MAIL_PARAMETERS = ['SIZE', 'BODY', 'SMTPUTF8']

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
  #inside = false
  /** What comes next in a message stands at the beginning of a line. */
  #lineBegins = false

  override _write(chunk: Buffer, encoding: BufferEncoding | 'buffer', next: (error?: Error | null) => void): void {
    // The library hands the rest of a chunk back, after a final dot or behind DATA: it was looked at with the whole.
    if (this.#inside) return super._write(chunk, encoding, next)
    // What waits behind STARTTLS in clear text is dropped, whatever it is.
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

  /** Takes doubled dots out (RFC 5321 §4.5.2) and finds CRLF.CRLF, in one pass: the library waits a turn of the event loop at each dot,
   *  so that a mail made of dots would keep the process busy for minutes. */
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
        // What follows the dot decides.
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

  /** Hands on what is known to be text; the rest waits for what follows. */
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

  /** The library clears the callback after it has run, by when it may be that of the next message: all that follows would wait. */
  override continue(): void {
    const resume = this._continueCallback
    this._continueCallback = typeof resume !== 'function'
    if (typeof resume === 'function') resume()
  }

  /** What ends without a line end is no command. */
  override _flushData(): void {}

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

  /** Parameters of extensions that are not offered are refused (RFC 5321 §4.1.1.11), and what is not ASCII without SMTPUTF8. */
  override handler_MAIL(command: Buffer, callback: () => void): void {
    if (this.#refuses('mail from', command, MAIL_PARAMETERS)) callback()
    else super.handler_MAIL(command, callback)
  }

  override handler_RCPT(command: Buffer, callback: () => void): void {
    if (this.session.envelope.mailFrom && this.#refuses('rcpt to', command, [])) callback()
    else super.handler_RCPT(command, callback)
  }

  handler_EXPN(_: Buffer, callback: () => void): void {
    this.send(502, '5.5.1 Lists are not expanded here')
    callback()
  }

  #refuses(name: 'mail from' | 'rcpt to', command: Buffer, known: readonly string[]): boolean {
    const parsed = this._parseAddressCommand(name, command)
    if (!parsed) return false
    const parameters = Object.keys(parsed.args || {})
    // Looked at as it came: the library has turned A-labels into letters.
    const [path] = command.toString().split('>', 1)
    if (parameters.some((parameter) => !known.includes(parameter)))
      this.send(555, '5.5.4 A parameter that is not known here')
    else if (!isUtf8(command)) this.send(553, '5.6.7 An address is ASCII or UTF-8')
    else if (/[^\0-\x7f]/.test(path!) && !parameters.includes('SMTPUTF8') && !this.session.envelope.smtpUtf8)
      this.send(553, '5.6.7 An address that is not ASCII takes SMTPUTF8')
    else return false
    return true
  }

  /** A text that begins with an enhanced code has its own; 421 and 521 end the session (RFC 5321 §3.8). */
  override send(code: number, data?: string | string[] | null, context?: string | false): void {
    const own = typeof data === 'string' && /^[245]\.\d{1,3}\.\d{1,3} /.test(data)
    // The library's context of a command that it does not know is what the client wrote, and might name any code.
    const chosen = context !== false && (code === 421 || code === 500) ? undefined : context
    super.send(code, data, own ? false : chosen)
    // Recipients beyond the limit are to come again (RFC 5321 §4.5.3.1.10); those before them still get their mail.
    if (context === 'TOO_MANY_RECIPIENTS') return
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
