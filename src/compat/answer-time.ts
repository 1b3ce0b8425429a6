// When a client gets its answer. Clients of the original APIs repeat a request without an answer, and would send the
// emails twice.
import type { ServerResponse } from 'node:http'
import type { Context } from 'hono'
import { SECOND, type Clock } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'

/** Milliseconds from the end of a request to the latest beginning of its commit. Ghost waits for 60 s. */
const LONGEST_WAIT = 30 * SECOND

/** Runs `done` when the answer was handed to the connection. If the client disconnected before, it never runs. */
export function whenAnswered({ env }: Context, done: () => void): void {
  const { outgoing } = (env ?? {}) as { outgoing?: ServerResponse }
  if (!outgoing) done()
  else if (outgoing.socket && !outgoing.socket.destroyed) outgoing.once('finish', done)
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
