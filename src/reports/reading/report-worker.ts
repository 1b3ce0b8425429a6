// The worker thread that reads reports (readers.ts). The server receives sums and the largest sources only.
import { release } from '../../base/memory.ts'
import { collector } from '../../base/native.ts'
import { readProven } from '../../base/spooled.ts'
import { serveJobs } from '../../base/threads/jobs.ts'
import { foldedTls, FoldedRecords } from './fold.ts'
import { readReport } from './read.ts'
import type { ReadingTimes, ReportReading } from './report.ts'

/** The bytes of a message or a report, or the file of the spool that contains them. */
export type ReportContent = Uint8Array | { file: string }

export interface ReportJob {
  content: ReportContent
  times: ReadingTimes
  /** It may need much memory. */
  large: boolean
}

const collect = collector()

function perform({ content, large, times }: ReportJob): ReportReading {
  // Frees the memory that the last large report used.
  if (large) collect()
  const bytes = 'file' in content ? readProven(content.file) : content
  const records = new FoldedRecords()
  const reading = readReport(bytes, times, (record) => records.add(record))
  // The bytes belong to this thread, and are not read again.
  release(bytes)
  if (reading.outcome === 'refused') return reading
  const { report } = reading
  return {
    outcome: 'read',
    report:
      report.kind === 'dmarc' ? { ...report, sums: records.sums(), sources: records.sources() } : foldedTls(report),
  }
}

serveJobs<ReportJob, ReportReading>(perform, { lot: 1 })
