// A receiving session, built on smtp-server's connection. Added:
// - A line ends with CRLF only (RFC 5321 §2.3.8). A bare CR or LF closes the session, so that two servers never
//   disagree about the end of a message.
// - Replies have our own enhanced codes.
// - Errors are counted.
// - A stopping server replies 421.
import { isUtf8 } from 'node:buffer'
import type { Socket } from 'node:net'
import { localPart } from '../base/local-part.ts'
import { counters } from '../base/counters.ts'
import { SMTPConnection } from 'smtp-server/lib/smtp-connection.js'
import { SMTPStream } from 'smtp-server/lib/smtp-stream.js'

/** The longest command line: 512 bytes (RFC 5321 §4.5.3.1.4) and room for the extensions' parameters. */
const MAX_COMMAND = 2048
/** After this many errors a session ends: the client only tries out addresses and commands. */
const MAX_ERRORS = 50
/**
 * The most commands without mail (NOOP, RSET, VRFY, HELP, EHLO …) between two messages, as Postfix's
 * smtpd_junk_command_limit.
 */
const MAX_JUNK = 100
/**
 * The MAIL parameters of the offered extensions (RFC 1870, RFC 6152, RFC 6531). With sign-in AUTH too (RFC 4954 §5).
 */
const MAIL_PARAMETERS = ['SIZE', 'BODY', 'SMTPUTF8']
/** After this many wrong passwords a session ends: the client is guessing. */
const MAX_REFUSED = 5

/** Texts for the library's replies that lack an enhanced code (RFC 4954 §6, RFC 2034), by reply code. */
const ENHANCED: Readonly<Record<number, string>> = {
  235: '2.7.0 Authentication succeeded',
  530: '5.7.0 Authentication required, over TLS only',
  538: '5.7.11 Authentication needs TLS: send STARTTLS first',
  504: '5.5.4 Unsupported authentication mechanism; use PLAIN or LOGIN',
}

/** The parser of each session. It is a map, because the library makes the parser before the session has fields, and
 *  because a message may still be processed after its connection has ended. */
const streams = new WeakMap<SMTPConnection, StrictStream>()

/**
 * How long a client may take, in ms: for a command, for a command before sign-in, for the handshake after STARTTLS. A
 * message may take one more second for each `rate` bytes.
 */
export interface Patience {
  request: number
  signIn: number
  handshake: number
  rate: number
}

export class InboundSession extends SMTPConnection {
  /** Called at DATA: whether the message may be sent. If undefined, it may. */
  mayData: ((done: (error?: Error | null) => void) => void) | undefined
  #errors = 0
  #refused = 0
  #junk = 0
  #hello = false
  /** The time of the last reply, in ms of `performance.now()`. */
  #answered = performance.now()
  #retiring = false
  /** The TLS socket as soon as there is one, also in its handshake. */
  #top: Socket | undefined

  /** Skips the library's wait of 100 ms for clients that send too early, because it delays every mail server. */
  override init(): void {
    this._setListeners(() => this.connectionReady())
  }

  /** Creates the parser of the client's bytes: a `StrictStream`, which rejects bare line ends. */
  override _createParser(): SMTPStream {
    const parser = new StrictStream({ maxCommandLength: MAX_COMMAND })
    parser.oncommand = (command, callback) => this._onCommand(command, callback)
    parser.onbroken = () => this.send(521, BARE_LINE_END)
    parser.on('error', () => this.send(421, '4.5.2 Command line too long'))
    streams.set(this, parser)
    return parser
  }

  /** Whether the message just received held a bare CR or LF. */
  get broken(): boolean {
    return streams.get(this)?.broken === true
  }

  /**
   * Rejects parameters of extensions that are not offered (RFC 5321 §4.1.1.11), and non-ASCII addresses without
   * SMTPUTF8.
   */
  override handler_MAIL(command: Buffer, callback: () => void): void {
    const known = super._isSupported('AUTH') ? [...MAIL_PARAMETERS, 'AUTH'] : MAIL_PARAMETERS
    if (this.#refuses('mail from', command, known)) callback()
    else super.handler_MAIL(command, callback)
  }

  /** Rejects parameters: no extension that is offered has one for RCPT (RFC 5321 §4.1.1.11). */
  override handler_RCPT(command: Buffer, callback: () => void): void {
    if (this.session.envelope.mailFrom && this.#refuses('rcpt to', command, [])) callback()
    else super.handler_RCPT(command, callback)
  }

  /**
   * AUTH with "=" is an empty initial response (RFC 4954 §4), which the library treats as missing data. For PLAIN,
   * these are empty credentials, which are wrong. For LOGIN, it is an empty user name, which is ignored here.
   */
  override handler_AUTH(command: Buffer, callback: () => void): void {
    const [, mechanism] = /^AUTH\s+(PLAIN|LOGIN)\s+=\s*$/i.exec(command.toString('latin1')) ?? []
    if (mechanism === undefined) return super.handler_AUTH(command, callback)
    const response = /plain/i.test(mechanism) ? '\0\0' : '-'
    super.handler_AUTH(Buffer.from(`AUTH ${mechanism} ${Buffer.from(response).toString('base64')}`), callback)
  }

  /** DATA is rejected, without 354, if the sender may no longer send. */
  override handler_DATA(command: Buffer, callback: () => void): void {
    if (!this.mayData || this.session.envelope.rcptTo.length === 0) return super.handler_DATA(command, callback)
    this.mayData((error) => {
      if (!error) return super.handler_DATA(command, callback)
      this.send((error as { responseCode?: number }).responseCode ?? 451, error.message)
      callback()
    })
  }

  /** NOOP counts as a command without mail (RFC 5321 §4.1.1.9). */
  override handler_NOOP(command: Buffer, callback: () => void): void {
    this.#spend(callback, () => super.handler_NOOP(command, callback))
  }

  /** RSET counts as a command without mail (RFC 5321 §4.1.1.5). */
  override handler_RSET(command: Buffer, callback: () => void): void {
    this.#spend(callback, () => super.handler_RSET(command, callback))
  }

  /** VRFY counts as a command without mail (RFC 5321 §4.1.1.6). */
  override handler_VRFY(command: Buffer, callback: () => void): void {
    this.#spend(callback, () => super.handler_VRFY(command, callback))
  }

  /** HELP counts as a command without mail (RFC 5321 §4.1.1.8). */
  override handler_HELP(command: Buffer, callback: () => void): void {
    this.#spend(callback, () => super.handler_HELP(command, callback))
  }

  /** EHLO counts as a command without mail. In clear text its reply does not offer AUTH (`_isSupported`). */
  override handler_EHLO(command: Buffer, callback: () => void): void {
    this.#spend(callback, () => {
      this.#hello = true
      super.handler_EHLO(command, callback)
      this.#hello = false
    })
  }

  /** Sign-in needs TLS: in clear text AUTH is known, rejected, and not offered (RFC 4954 §4). */
  override _isSupported(command: string): boolean {
    return super._isSupported(command) && !(command === 'AUTH' && this.#hello && !this.secure)
  }

  /** HELO counts as a command without mail (RFC 5321 §4.1.1.1). */
  override handler_HELO(command: Buffer, callback: () => void): void {
    this.#spend(callback, () => super.handler_HELO(command, callback))
  }

  /** Counts a command without mail. Too many between two messages close the session. */
  #spend(callback: () => void, handle: () => void): void {
    if (++this.#junk <= MAX_JUNK) return handle()
    super.send(421, '4.7.0 Too many commands without a message; closing connection', false)
    // Further input is not read.
    this._socket.destroySoon()
    callback()
  }

  /** Call it after a message was accepted: the count of commands without mail restarts. */
  carried(): void {
    this.#junk = 0
  }

  /** Whether the client exceeds its time. The time that this server needs for its reply does not count. */
  overdue({ handshake, rate, request, signIn }: Patience): boolean {
    if (this._handlerPending) return false
    const spent = performance.now() - this.#answered
    if (this._upgrading) return spent > handshake
    const received = streams.get(this)?.received ?? 0
    return spent > (this.session.user ? request : signIn) + (received / rate) * 1000
  }

  /** Ends a session that is overdue. */
  expire(): void {
    // No reply can be sent during a handshake. `destroy` ends the TLS socket, not the one below it.
    if (this._upgrading) return this.destroy()
    super.send(421, '4.4.2 Timeout; closing connection', false)
    this._socket.destroySoon()
  }

  /** STARTTLS. The event `upgrade` gives the socket below TLS, which has lost its listeners. */
  override upgrade(callback: () => void, secureCallback?: () => void): void {
    const below = this._socket
    super.upgrade(callback, secureCallback)
    this.emit('upgrade', below)
  }

  /** The library calls this for each new socket of the session, also for the TLS socket. */
  override _armTimeout(socket = this._socket): void {
    this.#top = socket
    super._armTimeout(socket)
  }

  /** EXPN is rejected. The library does not know it (RFC 5321 §3.5.2). */
  handler_EXPN(_: Buffer, callback: () => void): void {
    this.send(502, '5.5.1 EXPN is not supported')
    callback()
  }

  /** The library knows no quoted local parts (RFC 5321 §4.1.2): it reads the command with another in their place. */
  override _parseAddressCommand(name: string, command: Buffer): ReturnType<SMTPConnection['_parseAddressCommand']> {
    const [, before = '', quoted = '', after = ''] = QUOTED_PATH.exec(command.toString()) ?? []
    const local = localPart(quoted)
    if (local === undefined) return super._parseAddressCommand(name, command)
    const parsed = super._parseAddressCommand(name, Buffer.from(`${before}quoted${after}`))
    return parsed && { ...parsed, address: parsed.address.replace(/^quoted(?=@)/, () => local) }
  }

  #refuses(name: 'mail from' | 'rcpt to', command: Buffer, known: readonly string[]): boolean {
    // An ASCII address without parameters is always accepted here. The library parses it again.
    if (PLAIN_PATH.test(command.toString('latin1'))) return false
    const parsed = this._parseAddressCommand(name, command)
    if (!parsed) return false
    const parameters = Object.keys(parsed.args || {})
    // Checked in the command as received: the library has turned A-labels into Unicode.
    const path = command.toString().slice(0, command.lastIndexOf('>'))
    if (parameters.some((parameter) => !known.includes(parameter))) this.send(555, '5.5.4 Unsupported parameter')
    else if (!isUtf8(command)) this.send(553, '5.6.7 The address must be ASCII or UTF-8')
    else if (/[^\0-\x7f]/.test(path) && !parameters.includes('SMTPUTF8') && !this.session.envelope.smtpUtf8)
      this.send(553, '5.6.7 A non-ASCII address requires SMTPUTF8')
    else return false
    return true
  }

  /**
   * Sends a reply. A text that starts with an enhanced code keeps it. 421 and 521 close the session (RFC 5321 §3.8).
   */
  override send(code: number, data?: string | string[] | null, context?: string | false): void {
    this.#answered = performance.now()
    const parser = streams.get(this)
    if (parser) parser.received = 0
    const known = ENHANCED[code]
    if (known !== undefined && typeof data === 'string' && !/^[245]\.\d/.test(data))
      return this.send(code, known, context)
    const own = typeof data === 'string' && /^[245]\.\d{1,3}\.\d{1,3} /.test(data)
    // For an unknown command the library uses a context from the client's text, which could contain any enhanced code.
    const chosen = context !== false && (code === 421 || code === 500) ? undefined : context
    this.#count(code)
    super.send(code, data, own ? false : chosen)
    // The client sends the mail again to recipients beyond the limit (RFC 5321 §4.5.3.1.10): this is not an error, and
    // the other recipients get their mail.
    if (context === 'TOO_MANY_RECIPIENTS') return
    if (code >= 400 && code !== 421 && ++this.#errors >= MAX_ERRORS)
      this.#end('4.7.0 Too many errors; closing connection')
    else if (code === 535 && ++this.#refused >= MAX_REFUSED)
      this.#end('4.7.0 Too many failed sign-ins; closing connection')
    else if (code === 521) this.close()
    else if (this.#retiring && !this.#busy) this.#end(SHUTTING_DOWN)
  }

  #count(code: number): void {
    counters.smtp.add({ direction: 'in', class: `${String(code)[0]}xx` })
  }

  #end(text: string): void {
    this.#count(421)
    super.send(421, text, false)
  }

  get #busy(): boolean {
    return this._handlerPending || Boolean(this._dataStream)
  }

  /** Closes the session: at once if it is idle, otherwise after the reply that the client waits for. */
  retire(): void {
    if (this.#retiring) return
    this.#retiring = true
    if (this._upgrading) this.destroy()
    else if (!this.#busy) this.#end(SHUTTING_DOWN)
  }

  /** Ends the session without a reply. */
  destroy(): void {
    ;(this.#top ?? this._socket).destroy()
  }
}

const QUOTED_PATH = /^([A-Z ]{7,10}: *<)("(?:[^"\\]|\\.)*")(@[^<>\s]*>[^]*)$/i
const PLAIN_PATH = /^[A-Za-z]{4} [A-Za-z]{2,4}:<[\x21-\x3b=\x3f-\x7e]*>$/

export const BARE_LINE_END = '5.5.2 Lines must end with CRLF; bare CR and LF are rejected'
const SHUTTING_DOWN = '4.3.2 Shutting down; try again later'

// Splits a client's bytes into commands and messages: smtp-server's parser, with a check of every byte. A line ends
// with CRLF only (RFC 5321 §2.3.8), and a message with CRLF.CRLF, found in one pass.

const CR = 0x0d
const LF = 0x0a
const DOT = 0x2e
const LINE_DOT = Buffer.from('\r\n.')

/** Whether the bytes have a CR without LF or an LF without CR. `previous` is the byte before them. */
export function hasBareLineEnd(bytes: Uint8Array, previous: number): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (previous === CR && buffer.length > 0 && buffer[0] !== LF) return true
  for (let at = buffer.indexOf(LF); at >= 0; at = buffer.indexOf(LF, at + 1))
    if ((at === 0 ? previous : buffer[at - 1]) !== CR) return true
  for (let at = buffer.indexOf(CR); at >= 0; at = buffer.indexOf(CR, at + 1))
    if (at + 1 < buffer.length && buffer[at + 1] !== LF) return true
  return false
}

/** The library's parser, with a check of every byte. */
export class StrictStream extends SMTPStream {
  /** A bare CR or LF was seen: the message is not accepted, and later bytes are not read. */
  broken = false
  #previous = 0
  /** Bytes since the last reply. */
  received = 0
  #inside = false
  /** The next byte of the message is at the beginning of a line. */
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

  /**
   * Removes doubled dots (RFC 5321 §4.5.2) and finds CRLF.CRLF in one pass. The library waits a turn of the event loop
   * at each dot, so that a message made of dots would occupy the process for minutes.
   */
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
        // The byte after the dot decides, and has not arrived yet.
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

  /** Passes on the bytes that are surely text. The rest waits for the next chunk. */
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

  /** Called at a bare line end outside a message. The session sets it. */
  onbroken(): void {}
}
