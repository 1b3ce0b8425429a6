// What work costs: the time of the processor that this process and its worker threads take for it, which does not grow
// with what else the machine does meanwhile. For limits that only work of another order crosses: hostile input that
// costs the square of its size. A limit is for a machine on which REFERENCE costs NOMINAL ms; on a slower one, or one
// whose processors are shared, it grows with what REFERENCE costs there.
import assert from 'node:assert/strict'

const NOMINAL = 15

/** Work of a known size, of the kind that readers do: characters looked at, short strings made and joined. */
function reference(): number {
  const pieces: string[] = []
  let sum = 0
  for (let n = 0; n < 300_000; n++) {
    const piece = String.fromCharCode(32 + (n % 90), 32 + ((n * 7) % 90))
    sum = (sum * 31 + piece.charCodeAt(1)) | 0
    if (n % 3 === 0) pieces.push(piece)
  }
  return pieces.join('').length + sum
}

/** How many times slower than the machine of the limits this one is now; 1 when it is as fast, or faster. */
function slowness(): number {
  const cost = meter()
  reference()
  return Math.max(1, cost() / NOMINAL)
}

/** The same of this thread alone; below 1 when it is faster. The least of several runs counts. */
export function threadSlowness(): number {
  const costs = Array.from({ length: 5 }, () => {
    const before = process.threadCpuUsage()
    reference()
    const { system, user } = process.threadCpuUsage(before)
    return (user + system) / 1000
  })
  return Math.min(...costs) / NOMINAL
}

/** Begins to count; what it returns says how many ms of the processor it was since. */
export function meter(): () => number {
  const before = process.cpuUsage()
  return () => {
    const { system, user } = process.cpuUsage(before)
    return (user + system) / 1000
  }
}

/** Does the work; throws when it cost more than so many ms of the processor. */
export async function costing<T>(limit: number, work: () => Promise<T> | T): Promise<T> {
  const cost = meter()
  const result = await work()
  within(limit, cost())
  return result
}

/** The same for work that is done at once. */
export function costingAtOnce<T>(limit: number, work: () => T): T {
  const cost = meter()
  const result = work()
  within(limit, cost())
  return result
}

/** Looks at the machine only where it matters. */
export function within(limit: number, cost: number): void {
  if (cost <= limit) return
  const here = limit * slowness()
  assert.ok(cost <= here, `it cost ${Math.round(cost)} ms of the processor, not ${Math.round(here)}`)
}
