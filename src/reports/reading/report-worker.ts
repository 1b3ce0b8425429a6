// The worker thread that reads reports (readers.ts). What it found goes to the server in pieces: the server unpacks one
// piece in a turn, and so never pauses for a large report.
import { readProven } from '../../base/spooled.ts'
import { serveJobs } from '../../base/threads/jobs.ts'
import { readReport } from './read.ts'
import type { AggregateReport, DmarcReport, ReadingTimes, ReportReading, TlsReport, WhyRefused } from './report.ts'

/** The octets of a message or a report, or the spool's file that holds them. */
export type ReportContent = Uint8Array | { file: string }

export interface ReportJob {
  content: ReportContent
  times: ReadingTimes
}

/** A report without its records or policies, which are JSON in `pieces`. */
export type ReportInPieces =
  | { outcome: 'read'; report: AggregateReport; pieces: Uint8Array<ArrayBuffer>[] }
  | { outcome: 'refused'; why: WhyRefused }

/** Records or policies in one piece: what takes less than a millisecond to unpack. */
const PIECE = 200

function piecesOf(items: DmarcReport['records'] | TlsReport['policies']): Uint8Array<ArrayBuffer>[] {
  const pieces: Uint8Array<ArrayBuffer>[] = []
  for (let at = 0; at < items.length; at += PIECE)
    pieces.push(new TextEncoder().encode(JSON.stringify(items.slice(at, at + PIECE))))
  return pieces
}

function inPieces(reading: ReportReading): ReportInPieces {
  if (reading.outcome === 'refused') return reading
  const { report } = reading
  return report.kind === 'dmarc'
    ? { outcome: 'read', report: { ...report, records: [] }, pieces: piecesOf(report.records) }
    : { outcome: 'read', report: { ...report, policies: [] }, pieces: piecesOf(report.policies) }
}

serveJobs<ReportJob, ReportInPieces>(
  ({ content, times }) => inPieces(readReport('file' in content ? readProven(content.file) : content, times)),
  { lot: 1, transfer: (result) => (result.outcome === 'read' ? result.pieces.map(({ buffer }) => buffer) : []) },
)
