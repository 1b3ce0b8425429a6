// What strangers wrote is read in worker threads, each job with a budget of CPU time and memory, so that no page and no
// list (lists/apart.ts) stops the server. A page whose reading exceeds its budget is shown as its source, with the
// reason (D125).
import { SECOND } from '../base/clock.ts'
import { threadsHere } from '../base/memory.ts'
import { NoWorker, Pool } from '../base/threads/pool.ts'
import { semaphore } from '../base/semaphore.ts'
import type { ApartJob, RenderSource } from './apart-worker.ts'
import { asText, type HarmlessPage, type PageJob } from './harmless.ts'

export type { RenderSource } from './apart-worker.ts'

/** Threads, and the CPU time and the JavaScript heap of each: many times what usual pages and lists need. */
const SIZE = 2
const CPU = 10 * SECOND
const HEAP_MB = 512
/** Runs jobs in the worker threads of a module, so many at once; others wait in turn. */
export function workersOf<Job, Result>(module: URL): (job: Job, cpu?: number) => Promise<Result> {
  const oneOf = semaphore(2 * SIZE)
  const pool = new Pool<Job, Result>(module, { size: threadsHere(SIZE, 1), heapMb: HEAP_MB })
  return (job, cpu = CPU) => oneOf(() => pool.run(job, { cpu }))
}

/** Why a job failed; `long`: it exceeded its budget. */
export const reasonIn = (thrown: unknown, long: string): string =>
  thrown instanceof NoWorker ? 'The server has no thread for this at present; try again soon.' : long

const pages = workersOf<ApartJob, HarmlessPage>(new URL('./apart-worker.ts', import.meta.url))

/** A page, made harmless. Its source as text, with one sentence, when it cannot be read within the budget. */
export async function pageApart(source: RenderSource, how: Omit<PageJob, 'html'>, cpu = CPU): Promise<HarmlessPage> {
  try {
    return await pages({ source, ...how }, cpu)
  } catch (thrown) {
    const html = typeof source === 'string' ? source : source.content.body_html
    const why = reasonIn(thrown, 'Reading this mail as a page takes too long; this is its source.')
    return { body: asText(html, why), styles: '', urls: [] }
  }
}
