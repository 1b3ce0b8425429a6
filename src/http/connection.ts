// What a connection is answered beside its requests. A broken request waits for the answers to the whole ones before
// it: a mail that was stored is never answered by the error of what came after it. "100 Continue" is said when a body
// is asked for, so that a refused request is refused first. A connection that ends is read for a while after its last
// answer, because a reset would take the answer from a client that still sends (RFC 9112 §9.6).
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { SECOND, type Clock } from '../base/clock.ts'
import { codeOf } from '../base/errors.ts'

/** The most octets of a request's header. */
export const MOST_HEADER = 16 * 1024
/** How long a connection is read after its last answer. */
const LINGER = 5 * SECOND
/** How long a broken request waits for the answers before it. */
const LONGEST_ANSWER = 60 * SECOND

interface Exchange {
  incoming: IncomingMessage
  outgoing: ServerResponse
}

/** Requests whose client waits for "100 Continue" before it sends the body. */
const waiting = new WeakSet<IncomingMessage>()

/** Whether the client of a request waits to be asked for the body. */
export const waitsForContinue = (incoming: IncomingMessage): boolean => waiting.has(incoming)

/** Says "100 Continue" when the body is read first, unless the request is answered before (RFC 9110 §10.1.1). */
export function continueWhenRead(incoming: IncomingMessage, outgoing: ServerResponse): void {
  waiting.add(incoming)
  const read = incoming._read.bind(incoming)
  incoming._read = (size) => {
    incoming._read = read
    if (!outgoing.headersSent && waiting.delete(incoming)) outgoing.writeContinue()
    read(size)
  }
}

/**
 * Whether the body of a request has not arrived yet. Of the last octets of a body Node tells first, and later that they
 * were the last.
 */
export const isUnfinished = ({ complete, headers, readableLength }: IncomingMessage): boolean =>
  !complete && readableLength !== Number(headers['content-length'])

/** The answers to what the parser of Node cannot read (HPE_…), and to what does not arrive in time. */
function answerTo(code: string): string | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return text('408 Request Timeout', 'The request did not arrive in time.')
  if (code === 'HPE_HEADER_OVERFLOW')
    return text(
      '431 Request Header Fields Too Large',
      `The header fields of a request may have at most ${MOST_HEADER} bytes together.`,
    )
  return code.startsWith('HPE_')
    ? text(
        '400 Bad Request',
        'This is not a request of HTTP/1.1; send requests one after the other, each of one length.',
      )
    : undefined
}

const text = (status: string, sentence: string): string =>
  `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ${sentence.length + 1}\r\n\r\n${sentence}\n`

/** The connections of a listener with the requests that are being answered. */
export class Connections {
  readonly #clock: Clock
  readonly #open = new WeakMap<Socket, Set<Exchange>>()
  readonly #broken = new WeakSet<Socket>()
  readonly #ending = new WeakSet<Socket>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Notes a request. False: its connection ends, so that it could not be answered. */
  begin(incoming: IncomingMessage, outgoing: ServerResponse): boolean {
    const { socket } = incoming
    if (this.#ending.has(socket)) return false
    const exchange = { incoming, outgoing }
    this.#of(socket).add(exchange)
    outgoing.once('close', () => this.#open.get(socket)?.delete(exchange))
    return true
  }

  #of(socket: Socket): Set<Exchange> {
    const known = this.#open.get(socket)
    if (known) return known
    const made = new Set<Exchange>()
    this.#open.set(socket, made)
    // Node ends a connection by this after the last answer.
    socket.destroySoon = () => this.#end(socket)
    return made
  }

  /** Answers what could not be read as a request, after the whole requests before it, and ends the connection. */
  refuse(error: Error, socket: Socket): void {
    // Whatever follows on the connection is an error, too.
    if (this.#broken.has(socket) || this.#ending.has(socket)) return
    const said = answerTo(codeOf(error))
    if (said === undefined || !socket.writable) return void socket.destroy(error)
    this.#broken.add(socket)
    const before = [...(this.#open.get(socket) ?? [])].filter(({ incoming }) => incoming.complete)
    const late = this.#clock.wake(this.#clock.now() + LONGEST_ANSWER, () => socket.destroy(error))
    socket.once('close', late)
    void Promise.all(before.map(({ outgoing }) => closed(outgoing))).then(() => {
      late()
      // A request that broke in its own body may have been answered.
      const answered = [...(this.#open.get(socket) ?? [])].some(({ outgoing }) => outgoing.headersSent)
      this.#end(socket, answered ? undefined : said)
    })
  }

  /** Ends a connection after its last octets, and drops what still arrives. */
  #end(socket: Socket, last?: string): void {
    if (this.#ending.has(socket)) return
    this.#ending.add(socket)
    if (last !== undefined && socket.writable) socket.write(last)
    socket.end()
    if (socket.destroyed) return
    socket.once(
      'close',
      this.#clock.wake(this.#clock.now() + LINGER, () => socket.destroy()),
    )
  }
}

const closed = (outgoing: ServerResponse): Promise<void> =>
  new Promise((resolve) => (outgoing.closed ? resolve() : void outgoing.once('close', resolve)))
