// The worker thread that reads reports (readers.ts). The server gets sums, and the rows in small pieces: the next one
// when it has done with the last. So a report of any size is never whole in the thread that serves (DV54).
import { release } from '../../base/memory.ts'
import { collector } from '../../base/native.ts'
import { readProven } from '../../base/spooled.ts'
import { ask, serveJobs } from '../../base/threads/jobs.ts'
import { FoldedRecords, piecesOf, tlsRows, tlsSums, type ReportPiece } from './fold.ts'
import { readReport } from './read.ts'
import type { ReadingTimes, ReportReading } from './report.ts'

/** The octets of a message or a report, or the spool's file that holds them. */
export type ReportContent = Uint8Array | { file: string }

export interface ReportJob {
  content: ReportContent
  times: ReadingTimes
  /** It may take much memory. */
  large: boolean
  /** The rows from this one on are handed over, as questions with the number of this reading. */
  handOver?: { reading: number; from: number }
}

/** A piece that is handed over. The answer is whether another one is wanted. */
export interface HandedPiece extends ReportPiece {
  reading: number
}

const collect = collector()

/** A report in sums, and its rows. */
function summed({ content, large, times }: ReportJob): { reading: ReportReading; rows: Iterable<string> } {
  // What the last large one left takes no room beside the next.
  if (large) collect()
  const octets = 'file' in content ? readProven(content.file) : content
  const records = new FoldedRecords()
  const reading = readReport(octets, times, (record) => records.add(record))
  // The octets are this thread's own, and are not read again.
  release(octets)
  if (reading.outcome === 'refused') return { reading, rows: [] }
  const { report } = reading
  if (report.kind === 'dmarc')
    return {
      reading: { outcome: 'read', report: { ...report, sums: records.sums() }, rows: null },
      rows: records.rows(),
    }
  const { policies, ...rest } = report
  return {
    reading: { outcome: 'read', report: { ...rest, sums: tlsSums(report) }, rows: null },
    rows: tlsRows(policies),
  }
}

async function perform(job: ReportJob): Promise<ReportReading> {
  const { reading, rows } = summed(job)
  const { handOver } = job
  if (reading.outcome === 'refused') return reading
  if (handOver) {
    for (const piece of piecesOf(rows, handOver.from))
      if (!(await ask<boolean>({ ...piece, reading: handOver.reading } satisfies HandedPiece))) break
    return reading
  }
  const [first, second] = piecesOf(rows)
  return second ? reading : { ...reading, rows: first?.rows ?? '[]' }
}

serveJobs<ReportJob, ReportReading>(perform, { lot: 1 })
