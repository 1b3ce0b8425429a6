// One receiving session, built on smtp-server's connection. Added: a line ends with CRLF only (RFC 5321 §2.3.8; a bare
// CR or LF ends the session, so that two servers never disagree about the end of a message), replies have our own
// enhanced codes, errors are counted, and a stopping server says 421.
import { isUtf8 } from 'node:buffer'
import type { Socket } from 'node:net'
import { upTo } from '../base/text.ts'
import { counters } from '../base/counters.ts'
import { SMTPConnection } from 'smtp-server/lib/smtp-connection.js'
import type { SMTPStream } from 'smtp-server/lib/smtp-stream.js'
import { StrictStream } from './strict-stream.ts'

/** The longest command line: 512 octets (RFC 5321 §4.5.3.1.4) and room for the extensions' parameters. */
const MAX_COMMAND = 2048
/** After this many errors a session ends: the client only tries out addresses and commands. */
const MAX_ERRORS = 50
/**
 * The most commands without mail (NOOP, RSET, VRFY, HELP, EHLO …) between two messages;
 * as Postfix's smtpd_junk_command_limit.
 */
const MAX_JUNK = 100
/**
 * The MAIL parameters of the offered extensions (RFC 1870, RFC 6152, RFC 6531); with sign-in AUTH too (RFC 4954 §5).
 */
const MAIL_PARAMETERS = ['SIZE', 'BODY', 'SMTPUTF8']
/** After this many wrong passwords a session ends: the client is guessing. */
const MAX_REFUSED = 5

/** Texts for the library's replies that lack an enhanced code (RFC 4954 §6, RFC 2034), by reply code. */
const ENHANCED: Readonly<Record<number, string>> = {
  235: '2.7.0 Authentication succeeded',
  530: '5.7.0 Authentication required; over TLS alone',
  538: '5.7.11 Authentication needs TLS: send STARTTLS first',
  504: '5.5.4 This mechanism is not known here; PLAIN and LOGIN are',
}

/** The parser of each session. It is a map, because the library makes the parser before the session has fields, and
 *  because a message may still be processed after its connection has ended. */
const streams = new WeakMap<SMTPConnection, StrictStream>()

/**
 * How long a client may take, in ms: for a command, for a command before sign-in, for the handshake after STARTTLS. A
 * message may take one more second for each `rate` octets.
 */
export interface Patience {
  request: number
  signIn: number
  handshake: number
  rate: number
}

export class InboundSession extends SMTPConnection {
  /** Asked at DATA: whether the message may be sent. Undefined: it may. */
  mayData: ((done: (error?: Error | null) => void) => void) | undefined
  #errors = 0
  #refused = 0
  #junk = 0
  #hello = false
  /** When the last reply was sent; ms of `performance.now()`. */
  #answered = performance.now()
  #retiring = false
  /** The TLS socket as soon as there is one, also in its handshake. */
  #top: Socket | undefined

  /** Skips the library's wait of 100 ms, which detects clients that talk too early: it delays every mail server. */
  override init(): void {
    this._setListeners(() => this.connectionReady())
  }

  /** Makes the parser of the client's octets: a `StrictStream`, which refuses bare line ends. */
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
   * Refuses parameters of extensions that are not offered (RFC 5321 §4.1.1.11),
   * and non-ASCII addresses without SMTPUTF8.
   */
  override handler_MAIL(command: Buffer, callback: () => void): void {
    const known = super._isSupported('AUTH') ? [...MAIL_PARAMETERS, 'AUTH'] : MAIL_PARAMETERS
    if (this.#refuses('mail from', command, known)) callback()
    else super.handler_MAIL(command, callback)
  }

  /** Refuses parameters: no extension that is offered has one for RCPT (RFC 5321 §4.1.1.11). */
  override handler_RCPT(command: Buffer, callback: () => void): void {
    if (this.session.envelope.mailFrom && this.#refuses('rcpt to', command, [])) callback()
    else super.handler_RCPT(command, callback)
  }

  /**
   * AUTH with "=" is an empty initial response (RFC 4954 §4), which the library takes for missing data. PLAIN: empty
   * credentials, which are wrong. LOGIN: an empty user name, which is ignored here.
   */
  override handler_AUTH(command: Buffer, callback: () => void): void {
    const [, mechanism] = /^AUTH\s+(PLAIN|LOGIN)\s+=\s*$/i.exec(command.toString('latin1')) ?? []
    if (mechanism === undefined) return super.handler_AUTH(command, callback)
    const response = /plain/i.test(mechanism) ? '\0\0' : '-'
    super.handler_AUTH(Buffer.from(`AUTH ${mechanism} ${Buffer.from(response).toString('base64')}`), callback)
  }

  /** DATA is refused when the sender may no longer send: 354 is not given. */
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

  /** EHLO counts as a command without mail. Its answer does not offer AUTH in clear text; see `_isSupported`. */
  override handler_EHLO(command: Buffer, callback: () => void): void {
    this.#spend(callback, () => {
      this.#hello = true
      super.handler_EHLO(command, callback)
      this.#hello = false
    })
  }

  /** Sign-in needs TLS: in clear text AUTH is known, refused, and not offered (RFC 4954 §4). */
  override _isSupported(command: string): boolean {
    return super._isSupported(command) && !(command === 'AUTH' && this.#hello && !this.secure)
  }

  /** HELO counts as a command without mail (RFC 5321 §4.1.1.1). */
  override handler_HELO(command: Buffer, callback: () => void): void {
    this.#spend(callback, () => super.handler_HELO(command, callback))
  }

  /** Counts a command without mail: too many between two messages end the session. */
  #spend(callback: () => void, handle: () => void): void {
    if (++this.#junk <= MAX_JUNK) return handle()
    super.send(421, '4.7.0 Too many commands without a mail; goodbye', false)
    // Further input is not read.
    this._socket.destroySoon()
    callback()
  }

  /** Call it when a message was accepted: the count of commands without mail starts again. */
  carried(): void {
    this.#junk = 0
  }

  /** Whether the client takes longer than it may. The time that this server takes to answer does not count. */
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
    super.send(421, '4.4.2 Too slow; goodbye', false)
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

  /** EXPN is refused; the library does not know it (RFC 5321 §3.5.2). */
  handler_EXPN(_: Buffer, callback: () => void): void {
    this.send(502, '5.5.1 Lists are not expanded here')
    callback()
  }

  #refuses(name: 'mail from' | 'rcpt to', command: Buffer, known: readonly string[]): boolean {
    // Nothing to refuse in an ASCII address without parameters, which the library reads again.
    if (PLAIN_PATH.test(command.toString('latin1'))) return false
    const parsed = this._parseAddressCommand(name, command)
    if (!parsed) return false
    const parameters = Object.keys(parsed.args || {})
    // Checked in the command as received: the library has turned A-labels into Unicode.
    const path = upTo(command.toString(), '>')
    if (parameters.some((parameter) => !known.includes(parameter)))
      this.send(555, '5.5.4 A parameter that is not known here')
    else if (!isUtf8(command)) this.send(553, '5.6.7 An address is ASCII or UTF-8')
    else if (/[^\0-\x7f]/.test(path) && !parameters.includes('SMTPUTF8') && !this.session.envelope.smtpUtf8)
      this.send(553, '5.6.7 An address that is not ASCII takes SMTPUTF8')
    else return false
    return true
  }

  /** A text that begins with an enhanced code keeps it; 421 and 521 end the session (RFC 5321 §3.8). */
  override send(code: number, data?: string | string[] | null, context?: string | false): void {
    this.#answered = performance.now()
    const parser = streams.get(this)
    if (parser) parser.received = 0
    const known = ENHANCED[code]
    if (known !== undefined && typeof data === 'string' && !/^[245]\.\d/.test(data))
      return this.send(code, known, context)
    const own = typeof data === 'string' && /^[245]\.\d{1,3}\.\d{1,3} /.test(data)
    // For an unknown command the library takes its context from the client's text, which could name any enhanced code.
    const chosen = context !== false && (code === 421 || code === 500) ? undefined : context
    this.#count(code)
    super.send(code, data, own ? false : chosen)
    // The client sends the mail again to recipients beyond the limit (RFC 5321 §4.5.3.1.10): this is not an error, and
    // the other recipients get their mail.
    if (context === 'TOO_MANY_RECIPIENTS') return
    if (code >= 400 && code !== 421 && ++this.#errors >= MAX_ERRORS) this.#end('4.7.0 Too many errors; goodbye')
    else if (code === 535 && ++this.#refused >= MAX_REFUSED) this.#end('4.7.0 Too many wrong passwords; goodbye')
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

  /** Ends the session: at once when it is idle, else after the answer that it waits for. */
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

const PLAIN_PATH = /^[A-Za-z]{4} [A-Za-z]{2,4}:<[\x21-\x3b=\x3f-\x7e]*>$/

export const BARE_LINE_END = '5.5.2 A line must end with CR LF; bare CR or LF is not accepted'
const SHUTTING_DOWN = '4.3.2 Shutting down; try again later'
