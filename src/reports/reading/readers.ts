// The main thread's side of reading reports: each is read in a worker thread, within a CPU time and a heap (DV54).
import { MINUTE, SECOND } from '../../base/clock.ts'
import { semaphore } from '../../base/semaphore.ts'
import { NoWorker, Pool, TookTooLong, WorkerLost } from '../../base/threads/pool.ts'
import type { ReportPiece } from './fold.ts'
import type { ReadingTimes, ReportReading } from './report.ts'
import type { HandedPiece, ReportContent, ReportJob } from './report-worker.ts'

export type { ReportContent } from './report-worker.ts'

/** CPU time of one report, and the JavaScript heap of a thread: its buffers take as much again. */
const CPU = 5 * SECOND
const HEAP_MB = 64
/** CPU time of one that was read before: it is not refused because the machine is slower this time. */
const CPU_AGAIN = MINUTE

/** Takes a piece; false: no more are wanted. The next one comes when it resolves. */
export type TakePiece = (piece: ReportPiece) => Promise<boolean>

export interface ReportReader {
  /**
   * Reads one report. Rejects for reasons of this machine alone: NoWorker (threads cannot be started, or are closed),
   * and JobFailed with the code of a file that cannot be read.
   */
  read(content: ReportContent, times: ReadingTimes): Promise<ReportReading>
  /**
   * Hands over the rows of a report that was read before, from row number `from` on, one piece after the other. A piece
   * may come again when a thread died. Rejects as `read` does, and when `take` does.
   */
  handOver(content: ReportContent, from: number, take: TakePiece): Promise<ReportReading>
  close(): Promise<void>
}

/** Octets from which on a message may hold a report that takes long, and much memory. */
const LARGE = 64 * 1024

const isLarge = (content: ReportContent): boolean => 'file' in content || content.length >= LARGE

/**
 * One report is read at a time, and beside it one that is large or takes long: so many of these take no more memory
 * than one does, and small ones wait for none of them (DV54).
 */
export function reportReader(): ReportReader {
  const takers = new Map<number, TakePiece>()
  let readings = 0
  const pool = new Pool<ReportJob, ReportReading>(new URL('./report-worker.ts', import.meta.url), {
    size: 1,
    cpu: CPU,
    heapMb: HEAP_MB,
    answer: async (asked) => {
      const { reading, ...piece } = asked as HandedPiece
      return (await takers.get(reading)?.(piece)) ?? false
    },
  })
  const inTurn = semaphore(1)
  const run = async (job: ReportJob, cpu: number): Promise<ReportReading> => {
    const read = () => pool.run(job, { cpu, slow: job.large, heapOnce: true })
    try {
      return await (job.large ? inTurn(read) : read())
    } catch (thrown) {
      if (thrown instanceof NoWorker || !(thrown instanceof WorkerLost || thrown instanceof TookTooLong)) throw thrown
      return { outcome: 'refused', why: 'too_large' }
    }
  }
  return {
    read: (content, times) => run({ content, times, large: isLarge(content) }, CPU),
    async handOver(content, from, take) {
      const reading = ++readings
      let fault: { thrown: unknown } | undefined
      takers.set(reading, async (piece) => {
        try {
          return await take(piece)
        } catch (thrown) {
          fault = { thrown }
          return false
        }
      })
      try {
        const times = { now: Infinity, oldest: null }
        const found = await run({ content, times, large: true, handOver: { reading, from } }, CPU_AGAIN)
        if (fault) throw fault.thrown
        return found
      } finally {
        takers.delete(reading)
      }
    },
    close: () => pool.close(),
  }
}
