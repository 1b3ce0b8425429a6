// How a report is shown, and why it was rejected, in a sentence.
import type { ReportRow } from './receipt.ts'

export const WORDS: Record<NonNullable<ReportRow['why']>, string> = {
  doctype: 'The XML contains a DOCTYPE, which is not allowed.',
  malformed: 'The XML or JSON is truncated or invalid.',
  archive: 'The archive is corrupt, encrypted or contains more than one file.',
  too_large: 'The report is too large, too deeply nested or takes too long to parse.',
  not_a_report: 'It is neither a DMARC report (XML with the element "feedback") nor a TLS report (JSON).',
  no_report: 'The message contains no report.',
  no_domain: 'The domain is missing.',
  no_id: 'The report ID is missing.',
  date_range: 'The period is missing, longer than 32 days, reversed or in the future.',
  too_old: 'The report is older than the retention period.',
  no_policy: 'It has no policy of a known type.',
  unauthenticated: 'It has no valid DKIM signature of the reporting domain, so it could be forged.',
  foreign: 'It is about a domain that does not belong to this report address.',
  duplicate: 'It was already received.',
  too_many: 'The daily limit of reports was exceeded.',
  virus: 'The virus scanner found a virus in it.',
}

/** The attributes of a report that are not its columns. */
export function shownReport(row: ReportRow) {
  const { begin_at, created_at, end_at, faults, form, kind, org, outcome, passed, failed, reporter, why } = row
  const [dmarc, tls] = [kind === 'dmarc' && outcome === 'read', kind === 'tls' && outcome === 'read']
  return {
    reporter: reporter === '' ? null : reporter,
    org_name: org ?? (reporter === '' ? null : reporter),
    begin: begin_at,
    end: end_at,
    received_at: created_at,
    messages: dmarc ? passed + failed : null,
    pass: dmarc ? passed : null,
    fail: dmarc ? failed : null,
    successful_sessions: tls ? passed : null,
    failed_sessions: tls ? failed : null,
    reason: why,
    format: form,
    warnings: faults.split(' ').filter((fault) => fault !== ''),
  }
}
