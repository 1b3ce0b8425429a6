// What one report says, in sums: the answer of `postrider report read`.
import { createHash } from 'node:crypto'
import type { DmarcRecord, DmarcReport, ReportFault, ReportReading, TlsReport, WhyRefused } from './report.ts'

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

const sumOf = <Each>(items: readonly Each[], count: (item: Each) => number): number =>
  items.reduce((sum, item) => sum + count(item), 0)

function dmarcSums(report: DmarcReport): Omit<DmarcSummary, keyof SummaryHead> {
  const { domain, email, form, kind, policy, records, skippedRecords } = report
  const messagesIf = (holds: (record: DmarcRecord) => boolean): number =>
    sumOf(records, (record) => (holds(record) ? record.count : 0))
  const messages = messagesIf(() => true)
  const pass = messagesIf(({ dkim, spf }) => dkim === 'pass' || spf === 'pass')
  const found = [...new Set(records.map(({ disposition }) => disposition))]
  return {
    kind,
    form,
    email,
    domain,
    policy,
    records: records.length,
    messages,
    dkim_pass: messagesIf(({ dkim }) => dkim === 'pass'),
    spf_pass: messagesIf(({ spf }) => spf === 'pass'),
    pass,
    fail: messages - pass,
    disposition: Object.fromEntries(found.map((each) => [each, messagesIf(({ disposition }) => disposition === each)])),
    sources: new Set(records.map(({ address }) => address)).size,
    ...(skippedRecords > 0 ? { skipped_records: skippedRecords } : {}),
  }
}

function tlsSums({ policies, skippedPolicies }: TlsReport): Omit<TlsSummary, keyof SummaryHead> {
  return {
    kind: 'tlsrpt',
    policies: policies.map(({ results, ...policy }) => ({
      ...policy,
      results: Object.fromEntries(results.map(({ sessions, type }) => [type, sessions])),
    })),
    success: sumOf(policies, ({ success }) => success),
    failure: sumOf(policies, ({ failure }) => failure),
    ...(skippedPolicies > 0 ? { skipped_policies: skippedPolicies } : {}),
  }
}

/** What the octets of a file hold. */
export function summaryOf(octets: Uint8Array, reading: ReportReading): ReportSummary {
  const sha256 = createHash('sha256').update(octets).digest('hex').slice(0, 16)
  if (reading.outcome === 'refused') return { ...reading, sha256 }
  const { report } = reading
  const { begin, end, faults, org, reportId } = report
  const head = { outcome: 'read', org, report_id: reportId, begin, end, sha256 } as const
  const told = faults.length > 0 ? { ...head, faults } : head
  return report.kind === 'dmarc' ? { ...told, ...dmarcSums(report) } : { ...told, ...tlsSums(report) }
}
