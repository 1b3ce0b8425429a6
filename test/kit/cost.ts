// The cost of work: the CPU time that this process and its worker threads take for it, which does not grow with the
// other load of the machine. It is for limits that only work of another order exceeds, such as hostile input that costs
// the square of its size. A limit is for a machine on which `reference` costs NOMINAL ms. On a slower machine, or one
// whose processors are shared, the limit grows with the cost of `reference` there.
import assert from 'node:assert/strict'

const NOMINAL = 15

/** Work of a known size, like the work of parsers: it reads characters, and makes and joins short strings. */
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

/** How many times slower this machine is now than the machine of the limits, or 1 if it is as fast or faster. */
function slowness(): number {
  const cost = meter()
  reference()
  return Math.max(1, cost() / NOMINAL)
}

/** The same for this thread only. Below 1 when the machine is faster. The lowest value of several runs counts. */
export function threadSlowness(): number {
  const costs = Array.from({ length: 5 }, () => {
    const before = process.threadCpuUsage()
    reference()
    const { system, user } = process.threadCpuUsage(before)
    return (user + system) / 1000
  })
  return Math.min(...costs) / NOMINAL
}

/** Starts to measure. The returned function gives the CPU time since then in ms. */
export function meter(): () => number {
  const before = process.cpuUsage()
  return () => {
    const { system, user } = process.cpuUsage(before)
    return (user + system) / 1000
  }
}

/** Does the work. Throws if it takes more than `limit` ms of CPU time. */
export async function costing<T>(limit: number, work: () => Promise<T> | T): Promise<T> {
  const cost = meter()
  const result = await work()
  within(limit, cost())
  return result
}

/** The same for synchronous work. */
export function costingAtOnce<T>(limit: number, work: () => T): T {
  const cost = meter()
  const result = work()
  within(limit, cost())
  return result
}

/** Throws when the cost exceeds the limit. The speed of the machine is measured only when this is needed. */
export function within(limit: number, cost: number): void {
  if (cost <= limit) return
  const here = limit * slowness()
  assert.ok(cost <= here, `it cost ${Math.round(cost)} ms of the processor, not ${Math.round(here)}`)
}
