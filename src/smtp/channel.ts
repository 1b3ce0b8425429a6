// The connection below an SMTP session. It sends commands, receives replies, each within a time limit, and records the
// transcript. Every call resolves with a reply or with the failure that closed the connection, whichever way the server
// behaves.
import { connect as connectTcp, isIPv6, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { forLog } from '../base/clean-text.ts'
import { SECOND } from '../base/clock.ts'
import { codeOf, messageOf } from '../base/errors.ts'
import { isLocal } from '../base/local-trouble.ts'
import { trusting } from '../base/tls.ts'
import { certificatesOf, judgeByDane, type DaneProof } from './dane.ts'
import { ReplyReader, type SmtpReply } from './reply.ts'
import type { TlsProof } from './security.ts'

/** The reason why a connection was closed, as text for users. */
export interface Failure {
  failure: string
  /** The cause is this machine: it has no free descriptor, no memory, or not the local address. */
  local?: true
}

const WORDS: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the server reset the connection',
  EPIPE: 'the server closed the connection',
  ETIMEDOUT: 'connection timed out',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  EMFILE: 'this machine has no free file descriptor',
  ENFILE: 'this machine has no free file descriptor',
  EADDRNOTAVAIL: 'this machine does not have the sending IP address ("delivery.source" or "delivery.sources")',
}

/** The error of a socket as text for users. */
const wordsFor = (error: Error): string =>
  WORDS[codeOf(error)] ?? forLog(messageOf(error)).replace(/; if the root CA is installed locally.*/, '')

/**
 * The server must have a certificate from an authority known to Node or from one of `authorities` (PEM), or one that
 * matches TLSA records.
 */
export type Verify = { authorities: string | undefined } | { dane: DaneProof }

/** Whether an answer is the failure that ended the connection. */
export const isFailure = (answer: object): answer is Failure => 'failure' in answer

/** The most characters of the dialogue that are kept for one mail. */
const MAX_DIALOGUE = 8000
const MAX_NOTE = 600
const ENDED = 'ended by us'
/**
 * The most replies that wait to be read: replies to pipelined commands, or replies without a command (such as a 421
 * before the server closes the connection).
 */
const MAX_UNASKED = 200
const BLOCK = 64 * 1024

export class Channel {
  #socket: Socket
  #reader = new ReplyReader()
  #replies: SmtpReply[] = []
  #waiting: ((answer: SmtpReply | Failure) => void) | null = null
  #dialogue = ''
  #opening = ''
  /** Why the connection cannot be used any more, or null while it can. */
  broken: Failure | null = null
  /** TLS protocol in use, null in clear text. */
  tls: string | null = null
  cipher: string | null = null
  /** How the server was authenticated. */
  proof: TlsProof = 'none'
  /** Called when the connection ends, except by `quit`. */
  onEnd: () => void = () => {}

  constructor(socket: Socket) {
    this.#socket = socket
    this.#listen()
  }

  /** The opening of the connection and the dialogue about the present mail, as recorded text. */
  get dialogue(): string {
    return this.#opening + this.#dialogue
  }

  /** Marks the dialogue so far as the opening. The following belongs to one mail. */
  beginMail(): void {
    this.#opening ||= this.#dialogue.slice(0, MAX_DIALOGUE / 4)
    this.#dialogue = ''
  }

  /** Adds a line to the transcript, shortened. A full transcript does not change. */
  note(line: string): void {
    if (this.#dialogue.length < MAX_DIALOGUE) this.#dialogue += `${line.slice(0, MAX_NOTE)}\n`
  }

  /** Writes several commands at once (RFC 2920). `shown` is recorded instead of commands that contain secrets. */
  write(lines: readonly string[], shown: readonly string[] = lines): void {
    for (const line of shown) this.note(`-> ${line}`)
    if (this.broken === null) this.#socket.write(`${lines.join('\r\n')}\r\n`)
  }

  /** Sends one command and waits for its reply. `shown` is recorded instead of a command that contains a secret. */
  async command(line: string, timeout: number, shown = line): Promise<SmtpReply | Failure> {
    this.write([line], [shown])
    return this.reply(timeout)
  }

  /**
   * The next reply. `timeout` (ms) is for the whole reply, so that single bytes now and then cannot hold the
   * connection.
   */
  reply(timeout: number): Promise<SmtpReply | Failure> {
    const ready = this.#replies.shift()
    if (ready) return Promise.resolve(ready)
    if (this.broken) return Promise.resolve(this.broken)
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#cut(`no reply within ${Math.round(timeout / SECOND)} s`), timeout)
      this.#waiting = (answer) => {
        clearTimeout(timer)
        this.#waiting = null
        resolve(answer)
      }
    })
  }

  /** Writes a message's bytes. Returns a failure when the server stops reading for longer than `stall` ms. */
  async writeData(wire: Buffer, stall: number): Promise<Failure | undefined> {
    this.note(`-> (${wire.length} bytes of message data)`)
    for (let at = 0; at < wire.length; at += BLOCK) {
      if (this.broken) return this.broken
      if (this.#replies.length > 0) {
        this.#cut('the server replied before the end of the message')
        return this.broken!
      }
      if (this.#socket.write(wire.subarray(at, at + BLOCK)) || at + BLOCK >= wire.length) continue
      const stalled = await this.#drained(stall)
      if (stalled) return stalled
    }
    return undefined
  }

  /**
   * Changes to TLS 1.2 or newer. With `verify` the certificate must be valid for the name. Fails when the server sent
   * text before the handshake: it would be taken for text inside TLS (RFC 3207 §6).
   */
  async startTls(servername: string, timeout: number, verify: Verify | undefined): Promise<Failure | undefined> {
    if (this.#reader.hasRest || this.#replies.length > 0)
      return { failure: 'the server sent text between STARTTLS and the handshake' }
    const plain = this.#socket
    for (const event of ['data', 'error', 'close']) plain.removeAllListeners(event)
    const done = await handshake(plain, servername, timeout, verify)
    const proof = isFailure(done) ? done : proofOf(done, verify)
    const secure = typeof proof === 'string' ? done : proof
    if (isFailure(secure)) {
      this.#break(secure)
      plain.destroy()
      return secure
    }
    this.#socket = secure
    this.#reader = new ReplyReader()
    this.tls = secure.getProtocol()
    this.cipher = secure.getCipher().name
    if (typeof proof === 'string') this.proof = proof
    this.note(`-- ${this.tls} ${this.cipher}`)
    this.#listen()
    return undefined
  }

  /** True when all written bytes were sent: their buffer is no longer read. */
  get flushed(): boolean {
    return this.#socket.writableLength === 0
  }

  /** Sends QUIT. Resolves when the connection is closed, at the latest after 5 s. */
  quit(): Promise<void> {
    if (this.broken === null) this.#socket.end('QUIT\r\n')
    this.broken ??= { failure: 'closed by us' }
    const socket = this.#socket
    if (socket.closed) return Promise.resolve()
    return new Promise((resolve) => {
      // When the server does not close the connection in time, it is cut.
      const timer = setTimeout(() => socket.destroy(), 5 * SECOND)
      socket.once('close', () => {
        clearTimeout(timer)
        resolve()
      })
    })
  }

  /** Closes the connection at once, without QUIT. */
  destroy(): void {
    this.#cut(ENDED)
  }

  #cut(failure: string): void {
    this.#break({ failure })
    this.#socket.destroy()
  }

  #break(failure: Failure): void {
    if (this.broken) return
    this.broken = failure
    this.note(`-- ${failure.failure}`)
    this.#waiting?.(failure)
    this.onEnd()
  }

  #listen(): void {
    this.#socket.on('data', (chunk: Buffer) => {
      for (const reply of this.#reader.push(chunk)) {
        this.note(`<- ${reply.code} ${forLog(reply.lines.join('\n'))}`)
        if (this.#waiting) this.#waiting(reply)
        else if (this.#replies.length < MAX_UNASKED) this.#replies.push(reply)
      }
      if (this.#reader.broken) this.#cut('the server does not speak SMTP')
    })
    this.#socket.on('error', (error) => this.#break({ failure: wordsFor(error) }))
    this.#socket.on('close', () => this.#break({ failure: 'the server closed the connection' }))
  }

  #drained(stall: number): Promise<Failure | undefined> {
    return new Promise((resolve) => {
      const socket = this.#socket
      const done = (failure?: string): void => {
        clearTimeout(timer)
        socket.off('drain', drained).off('close', closed)
        if (failure !== undefined) this.#cut(failure)
        resolve(this.broken ?? undefined)
      }
      const drained = (): void => done()
      const closed = (): void => done('the connection was closed in the middle of the message')
      const timer = setTimeout(() => done('the server stopped reading'), stall)
      socket.once('drain', drained).once('close', closed)
    })
  }
}

/**
 * Returns the proof of the handshake, or a failure if `verify` demands more. Node has already checked the authorities.
 */
function proofOf(secure: TLSSocket, verify: Verify | undefined): TlsProof | Failure {
  if (!verify) return 'none'
  if ('authorities' in verify) return 'pkix'
  const judged = judgeByDane(verify.dane, certificatesOf(secure), Date.now())
  if (typeof judged !== 'string') secure.destroy()
  return judged
}

function handshake(
  plain: Socket,
  servername: string,
  timeout: number,
  verify: Verify | undefined,
): Promise<TLSSocket | Failure> {
  return new Promise((resolve) => {
    const secure = connectTls({
      socket: plain,
      minVersion: 'TLSv1.2',
      // The name or address that the certificate must be for. Without it, for an address, Node would check "localhost".
      host: servername,
      // Opportunistic: without DANE or MTA-STS, the certificate of a receiving server proves nothing (RFC 7435).
      rejectUnauthorized: verify !== undefined && 'authorities' in verify,
      // With DANE, exactly the certificates in the handshake are verified.
      ...(verify && 'dane' in verify ? { ca: [] } : trusting(verify?.authorities)),
      ...(/[a-z]/i.test(servername) ? { servername } : {}),
    })
    const give = (result: TLSSocket | Failure): void => {
      clearTimeout(timer)
      resolve(result)
    }
    const timer = setTimeout(() => give({ failure: 'the handshake timed out' }), timeout)
    secure.once('secureConnect', () => give(secure))
    secure.on('error', (error) => give({ failure: wordsFor(error) }))
    plain.once('close', () => give({ failure: 'the connection was closed during the handshake' }))
  })
}

/**
 * Opens a TCP connection within `timeout` ms. `signal` aborts the attempt. Never rejects: the result is the connection
 * or the failure.
 */
export function openChannel(
  target: { host: string; port: number; localAddress?: string | undefined },
  timeout: number,
  signal?: AbortSignal,
): Promise<Channel | Failure> {
  const { host, port, localAddress } = target
  return new Promise((resolve) => {
    const socket = connectTcp({ host, port, noDelay: true, ...(localAddress === undefined ? {} : { localAddress }) })
    const fail = (failure: string, local = false): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(local ? { failure, local } : { failure })
    }
    const timer = setTimeout(() => fail(`connection timed out after ${timeout / SECOND} s`), timeout)
    signal?.addEventListener('abort', () => fail(ENDED), { once: true })
    // A machine without IPv6 reports EADDRNOTAVAIL, too. Then only the receiving server is unreachable. If a source
    // address was set, this machine lacks it.
    const failed = (error: Error): void =>
      fail(
        wordsFor(error),
        isLocal(error) && !(isIPv6(host) && localAddress === undefined && codeOf(error) === 'EADDRNOTAVAIL'),
      )
    socket.once('error', failed)
    socket.once('connect', () => {
      clearTimeout(timer)
      socket.off('error', failed)
      resolve(new Channel(socket))
    })
  })
}
