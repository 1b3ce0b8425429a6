// Untrusted content is read in worker threads, each job with a budget of CPU time and memory, so that no page and no
// list (lists/apart.ts) blocks the server. A page whose job exceeds its budget is shown as its source, with the reason
// (D125).
import { SECOND } from '../../base/clock.ts'
import { codeOf, messageOf, TOO_LARGE_CODE } from '../../base/errors.ts'
import { threadsHere } from '../../base/memory.ts'
import { NoWorker, Pool } from '../../base/threads/pool.ts'
import { semaphore } from '../../base/semaphore.ts'
import type { ApartJob, RenderSource } from './apart-worker.ts'
import { asText, type HarmlessPage, type PageJob } from './harmless.ts'

export type { RenderSource } from './apart-worker.ts'

/** Threads, and the CPU time and JavaScript heap of each: many times the usual needs of pages and lists. */
const SIZE = 2
const CPU = 10 * SECOND
const HEAP_MB = 512
/**
 * Returns a function that runs jobs in the worker threads of a module. The number at a time is limited, and others
 * wait.
 */
export function workersOf<Job, Result>(module: URL): (job: Job, cpu?: number) => Promise<Result> {
  const oneOf = semaphore(2 * SIZE)
  const pool = new Pool<Job, Result>(module, { size: threadsHere(SIZE, 1), heapMb: HEAP_MB })
  return (job, cpu = CPU) => oneOf(() => pool.run(job, { cpu }))
}

/** The reason why a job failed. `long`: it exceeded its budget. */
export const reasonIn = (thrown: unknown, long: string): string =>
  thrown instanceof NoWorker
    ? 'The server is busy. Try again in a moment.'
    : codeOf(thrown) === TOO_LARGE_CODE
      ? messageOf(thrown)
      : long

const pages = workersOf<ApartJob, HarmlessPage>(new URL('./apart-worker.ts', import.meta.url))

/** Returns the sanitised page, or its source as text with one sentence if it exceeds the budget. */
export async function pageApart(source: RenderSource, how: Omit<PageJob, 'html'>, cpu = CPU): Promise<HarmlessPage> {
  try {
    return await pages({ source, ...how }, cpu)
  } catch (thrown) {
    const html = typeof source === 'string' ? source : source.content.body_html
    const why = reasonIn(thrown, 'This email takes too long to render. Its source is shown instead.')
    return { body: asText(html, why), styles: '', urls: [] }
  }
}
