// What strangers wrote is read in worker threads, each job with a budget of CPU time and memory, so that no page and no
// list stops the server. A page whose reading exceeds its budget is shown as its source, with the reason (D125).
import { SECOND } from '../base/clock.ts'
import { NoWorker, Pool } from '../base/threads/pool.ts'
import { semaphore } from '../base/semaphore.ts'
import type { ApartJob, ApartResult, Source } from './apart-worker.ts'
import { asText, type HarmlessPage, type PageJob } from './harmless.ts'
import type { Sheet } from './table.ts'

export type { Source } from './apart-worker.ts'

/** Threads, and the CPU time and the JavaScript heap of each: many times what usual pages and lists need. */
const SIZE = 2
const CPU = 10 * SECOND
const HEAP_MB = 512
/** The most jobs at once; others wait in turn. */
const oneOf = semaphore(2 * SIZE)

const pool = new Pool<ApartJob, ApartResult>(new URL('./apart-worker.ts', import.meta.url), {
  size: SIZE,
  heapMb: HEAP_MB,
})

const sentence = (thrown: unknown, long: string): string =>
  thrown instanceof NoWorker ? 'The server has no thread for this at present; try again soon.' : long

/** A page, made harmless. Its source as text, with one sentence, when it cannot be read within the budget. */
export async function pageApart(source: Source, how: Omit<PageJob, 'html'>, cpu = CPU): Promise<HarmlessPage> {
  try {
    return (await oneOf(() => pool.run({ task: 'page', source, ...how }, { cpu }))) as HarmlessPage
  } catch (thrown) {
    const html = typeof source === 'string' ? source : source.content.body_html
    const why = sentence(thrown, 'Reading this mail as a page takes too long; this is its source.')
    return { body: asText(html, why), styles: '', urls: [] }
  }
}

/** The rows of an uploaded CSV file; otherwise a sentence about the error. */
export async function tableApart(bytes: Uint8Array): Promise<Sheet | string> {
  try {
    return (await oneOf(() => pool.run({ task: 'table', bytes }, { cpu: CPU }))) as Sheet | string
  } catch (thrown) {
    return sentence(
      thrown,
      'Reading the file takes too much time or memory; the import of "postrider contacts" or "postrider suppression" takes larger ones.',
    )
  }
}
