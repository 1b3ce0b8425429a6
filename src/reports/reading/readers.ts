// The main thread's side of reading reports: a worker thread reads each of them, within limits of CPU time and heap.
import { SECOND } from '../../base/clock.ts'
import { semaphore } from '../../base/semaphore.ts'
import { NoWorker, Pool, TookTooLong, WorkerLost } from '../../base/threads/pool.ts'
import type { ReadingTimes, ReportReading } from './report.ts'
import type { ReportContent, ReportJob } from './report-worker.ts'

/** CPU time of one report, and the JavaScript heap of a thread: its buffers take as much again. */
const CPU = 5 * SECOND
const HEAP_MB = 64

export interface ReportReader {
  /**
   * Reads one report. Rejects only for reasons of this machine: NoWorker (threads cannot be started, or are closed),
   * and JobFailed with the code of a file that cannot be read.
   */
  read(content: ReportContent, times: ReadingTimes): Promise<ReportReading>
  close(): Promise<void>
}

/** Size in bytes from which a message can contain a report that needs much time and memory. */
const LARGE = 64 * 1024

const isLarge = (content: ReportContent): boolean => 'file' in content || content.length >= LARGE

/**
 * Reads one report at a time, and next to it one that is large or slow, so that many of these use no more memory than
 * one, and small reports never wait for them.
 */
export function reportReader(): ReportReader {
  const pool = new Pool<ReportJob, ReportReading>(new URL('./report-worker.ts', import.meta.url), {
    size: 1,
    cpu: CPU,
    heapMb: HEAP_MB,
  })
  const inTurn = semaphore(1)
  return {
    async read(content, times) {
      const large = isLarge(content)
      const run = () => pool.run({ content, times, large }, { slow: large, heapOnce: true })
      try {
        return await (large ? inTurn(run) : run())
      } catch (thrown) {
        if (thrown instanceof NoWorker || !(thrown instanceof WorkerLost || thrown instanceof TookTooLong)) throw thrown
        return { outcome: 'refused', why: 'too_large' }
      }
    },
    close: () => pool.close(),
  }
}
