// A report with all of its records, as the reader gives them one by one.
import { readReport as readInto } from '../../src/reports/reading/read.ts'
import {
  type DmarcRecord,
  type DmarcReport,
  type ReadingTimes,
  type TlsReport,
  type WhyRefused,
} from '../../src/reports/reading/report.ts'

export type WholeDmarcReport = DmarcReport & { records: DmarcRecord[] }
export type WholeReport = WholeDmarcReport | TlsReport

export function readReport(
  bytes: Uint8Array,
  times: ReadingTimes,
): { outcome: 'read'; report: WholeReport } | { outcome: 'refused'; why: WhyRefused } {
  const records: DmarcRecord[] = []
  const reading = readInto(bytes, times, (record) => records.push(record))
  if (reading.outcome === 'refused') return reading
  const { report } = reading
  return { outcome: 'read', report: report.kind === 'dmarc' ? { ...report, records } : report }
}
