// A gate that lets so many through at a time.

/** Lets so many through at a time; the others wait in their order. */
export function gate(most: number): <T>(work: () => Promise<T>) => Promise<T> {
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
