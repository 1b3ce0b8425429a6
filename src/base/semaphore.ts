// Limits the number of concurrent tasks.
import { setImmediate as turn } from 'node:timers/promises'

/** Runs tasks in turns. Results and errors are passed on. */
export type TaskTurns = <T>(work: () => Promise<T>) => Promise<T>

/** Runs at most `most` tasks at once. The others wait in order. */
export function semaphore(most: number): TaskTurns {
  let busy = 0
  const waiting: (() => void)[] = []
  return async (work) => {
    if (busy < most) busy++
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else busy--
    }
  }
}

/** Work on more bytes would delay other requests noticeably. */
const LARGE = 1024 * 1024
const alone = semaphore(1)

/**
 * Runs synchronous work on a number of bytes. On many bytes, it is the only such work in its turn of the event loop:
 * between the steps of large requests, other requests are answered.
 */
export async function inOwnTurn<T>(bytes: number, work: () => T): Promise<T> {
  if (bytes < LARGE) return work()
  return alone(async () => {
    await turn()
    return work()
  })
}
