// Answers that belong to a connection rather than to a request. An invalid request waits for the answers to the valid
// ones before it, so that the client of a stored email does not receive the error of a later request. "100 Continue" is
// sent when the body is first read, so that a refused request is refused before its body. After its last answer, a
// connection is read for a while, because a reset would discard the answer at a client that still sends (RFC 9112
// §9.6).
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { SECOND, type Clock } from '../base/clock.ts'
import { codeOf } from '../base/errors.ts'

/** The maximum size of a request's header in bytes. */
export const MOST_HEADER = 16 * 1024
/** Milliseconds for which a connection is read after its last answer. */
const LINGER = 5 * SECOND
/** Milliseconds for which an invalid request waits for the answers before it. */
const LONGEST_ANSWER = 60 * SECOND

interface Exchange {
  incoming: IncomingMessage
  outgoing: ServerResponse
}

const waiting = new WeakSet<IncomingMessage>()

/** Whether the client of a request waits for "100 Continue" before it sends the body. */
export const waitsForContinue = (incoming: IncomingMessage): boolean => waiting.has(incoming)

/** Sends "100 Continue" when the body is first read, unless the request is answered before (RFC 9110 §10.1.1). */
export function continueWhenRead(incoming: IncomingMessage, outgoing: ServerResponse): void {
  waiting.add(incoming)
  const read = incoming._read.bind(incoming)
  incoming._read = (size) => {
    incoming._read = read
    if (!outgoing.headersSent && waiting.delete(incoming)) outgoing.writeContinue()
    read(size)
  }
}

/** Whether the body of a request has not arrived yet. Node emits the last bytes of a body before it sets `complete`. */
export const isUnfinished = ({ complete, headers, readableLength }: IncomingMessage): boolean =>
  !complete && readableLength !== Number(headers['content-length'])

/** The answers to requests that Node's parser rejects (HPE_…), and to those that do not arrive in time. */
function answerTo(code: string): string | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return text('408 Request Timeout', 'The request did not arrive in time. Send it again.')
  if (code === 'HPE_HEADER_OVERFLOW')
    return text(
      '431 Request Header Fields Too Large',
      `The request headers are too large. The limit is ${MOST_HEADER} bytes.`,
    )
  return code.startsWith('HPE_')
    ? text(
        '400 Bad Request',
        'This is not a valid HTTP/1.1 request. Send requests one after the other, each with one length.',
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

  /** Records a request. Returns false if its connection is being closed, so that the request cannot be answered. */
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
    // Node calls this to end a connection after the last answer.
    socket.destroySoon = () => this.#end(socket)
    return made
  }

  /** Answers an invalid request after the valid requests before it, and ends the connection. */
  refuse(error: Error, socket: Socket): void {
    // All later bytes on the connection are errors, too.
    if (this.#broken.has(socket) || this.#ending.has(socket)) return
    const reply = answerTo(codeOf(error))
    if (reply === undefined || !socket.writable) return void socket.destroy(error)
    this.#broken.add(socket)
    const before = [...(this.#open.get(socket) ?? [])].filter(({ incoming }) => incoming.complete)
    const late = this.#clock.wake(this.#clock.now() + LONGEST_ANSWER, () => socket.destroy(error))
    socket.once('close', late)
    void Promise.all(before.map(({ outgoing }) => closed(outgoing))).then(() => {
      late()
      // A request with an invalid body may have been answered.
      const answered = [...(this.#open.get(socket) ?? [])].some(({ outgoing }) => outgoing.headersSent)
      this.#end(socket, answered ? undefined : reply)
    })
  }

  /** Ends a connection after its last bytes, and discards later input. */
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
