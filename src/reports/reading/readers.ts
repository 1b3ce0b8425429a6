// The main thread's side of reading reports: each is read in a worker thread, within a CPU time and a heap (DV54).
import { SECOND } from '../../base/clock.ts'
import { NoWorker, Pool, TookTooLong, WorkerLost } from '../../base/threads/pool.ts'
import type { AggregateReport, DmarcRecord, ReadingTimes, ReportReading, TlsPolicyReport } from './report.ts'
import type { ReportContent, ReportInPieces, ReportJob } from './report-worker.ts'

export type { ReportContent } from './report-worker.ts'

/** CPU time of one report, and the JavaScript heap of a thread: its buffers take as much again. */
const CPU = 5 * SECOND
const HEAP_MB = 64

export interface ReportReader {
  /**
   * Reads one report. Rejects for reasons of this machine alone: NoWorker (threads cannot be started, or are closed),
   * and JobFailed with the code of a file that cannot be read.
   */
  read(content: ReportContent, times: ReadingTimes): Promise<ReportReading>
  close(): Promise<void>
}

/** The report of its pieces, one in a turn of the event loop. */
async function whole(report: AggregateReport, pieces: readonly Uint8Array[]): Promise<AggregateReport> {
  for (const piece of pieces) {
    const items: unknown = JSON.parse(Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength).toString())
    if (report.kind === 'dmarc') report.records.push(...(items as DmarcRecord[]))
    else report.policies.push(...(items as TlsPolicyReport[]))
    await new Promise<void>((resolve) => void setImmediate(resolve))
  }
  return report
}

/** One report is read at a time; one that takes long goes on beside the next. */
export function reportReader(): ReportReader {
  const pool = new Pool<ReportJob, ReportInPieces>(new URL('./report-worker.ts', import.meta.url), {
    size: 1,
    cpu: CPU,
    heapMb: HEAP_MB,
  })
  return {
    async read(content, times) {
      try {
        const reading = await pool.run({ content, times }, { heapOnce: true })
        if (reading.outcome === 'refused') return reading
        return { outcome: 'read', report: await whole(reading.report, reading.pieces) }
      } catch (thrown) {
        if (thrown instanceof NoWorker || !(thrown instanceof WorkerLost || thrown instanceof TookTooLong)) throw thrown
        return { outcome: 'refused', why: 'too_large' }
      }
    },
    close: () => pool.close(),
  }
}
