// Limits the number of concurrent tasks.

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
