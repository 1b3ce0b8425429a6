// What one report says, in sums: the answer of `postrider report read`.
import { createHash } from 'node:crypto'
import type { ReportReader } from './readers.ts'
import type { DmarcReport, ReadingTimes, ReportFault, SummedReport, TlsPolicyReport, WhyRefused } from './report.ts'

/** In words, what is wrong with a report that is refused. */
export const WORDS: Record<WhyRefused, string> = {
  doctype: 'Its XML has a DOCTYPE, which no report needs.',
  malformed: 'Its XML or JSON ends too early, or has a mistake.',
  archive: 'Its archive is damaged, encrypted, or holds more than one file.',
  too_large: 'It is larger, deeper or slower to read than a report may be.',
  not_a_report: 'It is neither XML with the element "feedback" nor JSON of TLS reports.',
  no_report: 'No part of the mail is a report.',
  no_domain: 'It names no domain.',
  no_id: 'It has no report id.',
  date_range: 'Its period is missing, is longer than 32 days, ends before it begins, or lies ahead.',
  too_old: 'It is older than reports are kept.',
  no_policy: 'It has no policy of a type that is known.',
}

interface SummaryHead {
  outcome: 'read'
  org: string
  report_id: string
  begin: number
  end: number
  faults?: ReportFault[]
  sha256: string
}

export interface DmarcSummary extends SummaryHead {
  kind: 'dmarc'
  form: DmarcReport['form']
  email: string
  domain: string
  policy: DmarcReport['policy']
  records: number
  messages: number
  dkim_pass: number
  spf_pass: number
  pass: number
  fail: number
  disposition: Record<string, number>
  sources: number
  skipped_records?: number
}

export interface TlsSummary extends SummaryHead {
  kind: 'tlsrpt'
  policies: { type: string; domain: string; success: number; failure: number; results: Record<string, number> }[]
  success: number
  failure: number
  skipped_policies?: number
}

export interface RefusedSummary {
  outcome: 'refused'
  why: WhyRefused
  sha256: string
}

export type ReportSummary = DmarcSummary | TlsSummary | RefusedSummary

function dmarcSums(report: Extract<SummedReport, { kind: 'dmarc' }>): Omit<DmarcSummary, keyof SummaryHead> {
  const { domain, email, form, kind, policy, skippedRecords, sums } = report
  const { dispositions, dkimPass, messages, pass, records, sources, spfPass } = sums
  return {
    kind,
    form,
    email,
    domain,
    policy,
    records,
    messages,
    dkim_pass: dkimPass,
    spf_pass: spfPass,
    pass,
    fail: messages - pass,
    disposition: dispositions,
    sources,
    ...(skippedRecords > 0 ? { skipped_records: skippedRecords } : {}),
  }
}

function tlsSums(
  { skippedPolicies, sums }: Extract<SummedReport, { kind: 'tls' }>,
  policies: readonly TlsPolicyReport[],
): Omit<TlsSummary, keyof SummaryHead> {
  return {
    kind: 'tlsrpt',
    policies: policies.map(({ results, ...policy }) => ({
      ...policy,
      results: Object.fromEntries(results.map(({ sessions, type }) => [type, sessions])),
    })),
    success: sums.success,
    failure: sums.failure,
    ...(skippedPolicies > 0 ? { skipped_policies: skippedPolicies } : {}),
  }
}

/** All policies of a TLS report that was read. */
async function policiesOf(reader: ReportReader, octets: Uint8Array, rows: string | null): Promise<TlsPolicyReport[]> {
  // By their rows: a piece may come again.
  const pieces = new Map<number, string>(rows === null ? [] : [[0, rows]])
  if (rows === null)
    await reader.handOver(octets, 0, (piece) => {
      pieces.set(piece.at, piece.rows)
      return Promise.resolve(true)
    })
  return [...pieces.values()].flatMap((each) => JSON.parse(each) as TlsPolicyReport[])
}

/** What the octets of a file hold. */
export async function summaryOf(reader: ReportReader, octets: Uint8Array, times: ReadingTimes): Promise<ReportSummary> {
  const sha256 = createHash('sha256').update(octets).digest('hex').slice(0, 16)
  const reading = await reader.read(octets, times)
  if (reading.outcome === 'refused') return { ...reading, sha256 }
  const { report, rows } = reading
  const { begin, end, faults, org, reportId } = report
  const head = { outcome: 'read', org, report_id: reportId, begin, end, sha256 } as const
  const told = faults.length > 0 ? { ...head, faults } : head
  if (report.kind === 'dmarc') return { ...told, ...dmarcSums(report) }
  return { ...told, ...tlsSums(report, await policiesOf(reader, octets, rows)) }
}
