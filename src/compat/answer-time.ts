// When a client gets its answer. Clients of the original APIs repeat a request without an answer, and would send the
// emails twice.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Context } from 'hono'
import { MINUTE, SECOND, type Cancel, type Clock } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'

/** Milliseconds from the end of a request to the latest beginning of its commit. Ghost waits for 60 s. */
const LONGEST_WAIT = 30 * SECOND

/** Milliseconds for which the connection has to stay open after an answer, so that its client has read the answer. */
const READ_AFTER = 5 * SECOND
/** Milliseconds after an answer in which a client that disconnected can repeat the request without having read it. */
const UNREAD = 10 * MINUTE

/** An answer that was handed to a connection. It is unknown whether the client has read it. */
interface Unread {
  at: number
  cancel: Cancel
  done: () => void
}
const unread = new WeakMap<Socket, Unread[]>()

/** What Node's server passes on. A request inside the process has neither. */
const sidesOf = ({ env }: Context) => (env ?? {}) as { incoming?: IncomingMessage; outgoing?: ServerResponse }

/** A client that sends another request has read the answers to its earlier ones. */
export function requestArrived(context: Context): void {
  const { incoming } = sidesOf(context)
  for (const { cancel, done } of (incoming && unread.get(incoming.socket)?.splice(0)) ?? []) {
    cancel()
    done()
  }
}

/**
 * Runs `done` when the client has read the answer: it sends another request on the connection, or keeps the connection
 * open for 5 seconds. If it disconnects earlier, `done` runs 10 minutes after the answer. If it disconnected before the
 * answer, `done` never runs.
 */
export function whenRead(clock: Clock, context: Context, done: () => void): void {
  const { incoming, outgoing } = sidesOf(context)
  if (!incoming || !outgoing) done()
  else if (!incoming.socket.destroyed) outgoing.once('finish', () => answered(clock, incoming.socket, done))
}

function answered(clock: Clock, socket: Socket, done: () => void): void {
  const at = clock.now()
  const later = (): void => void clock.wake(at + UNREAD, done)
  if (socket.destroyed) return later()
  const all = unread.get(socket) ?? []
  if (!unread.has(socket)) {
    unread.set(socket, all)
    socket.once('close', () => {
      for (const each of all.splice(0)) {
        each.cancel()
        clock.wake(each.at + UNREAD, each.done)
      }
    })
  }
  const read = (): void => {
    const index = all.indexOf(answer)
    if (index < 0) return
    all.splice(index, 1)
    done()
  }
  // Two turns of the event loop, so that an end which arrived while this process was busy is read first.
  const cancel = clock.wake(at + READ_AFTER, () => void setImmediate(() => setImmediate(read)))
  const answer = { at, cancel, done }
  all.push(answer)
}

/** Creates emails if their commit begins in time. Throws a Refusal (503). */
export async function inTime<T>(clock: Clock, create: (begin: () => void) => Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const detail = 'The server did not accept the email in time. Send the request again.'
  const refusal = refuse('overloaded', detail, undefined, { 'Retry-After': '60' })
  let state: 'waiting' | 'begun' | 'late' = 'waiting'
  const cancel = clock.wake(clock.now() + LONGEST_WAIT, () => {
    if (state !== 'waiting') return
    state = 'late'
    late.reject(refusal)
  })
  const begin = (): void => {
    if (state === 'late') throw refusal
    state = 'begun'
  }
  try {
    return await Promise.race([create(begin), late.promise])
  } finally {
    cancel()
  }
}
