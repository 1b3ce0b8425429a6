// The received reports about a domain, with their results.
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { rawOf } from '../inbound/stored.ts'
import { define } from '../jsonapi/define.ts'
import { count, time, timeOrNull, wordsOrNull } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { valuesOf } from '../store/schema/tables.ts'
import type { ReportRow } from './receipt.ts'
import { shownReport } from './words.ts'

const countOrNull = (about: string) => field(z.int().nullable(), { about })

export const aggregateReports = define('aggregate-reports', {
  table: 'aggregate_reports',
  about: 'Reports from receivers: DMARC reports about email from a domain, and TLS reports about connections to it.',
  extension: true,
  attributes: {
    kind: field(z.enum(valuesOf('aggregate_reports', 'kind')), { about: 'Kind of report.' }),
    reporter: wordsOrNull(
      "Organisational domain of the report's author. It is proven if `authenticated` is true. Null if unknown.",
    ),
    org_name: wordsOrNull(
      'Organisation as named in the report, which is not proven. The reporter if the report has no name. Null if unknown.',
    ),
    report_id: wordsOrNull('Report id, set by the reporter. Null if unknown.'),
    begin: timeOrNull('Start of the reported period. Null if unknown.'),
    end: timeOrNull('End of the reported period. Null if unknown.'),
    received_at: time('Time when the report was received.'),
    authenticated: field(z.boolean(), {
      kind: 'flag',
      about:
        'Whether the author is proven: DMARC passed, or, for TLS reports, a DKIM signature covers the whole message. Other reports are not counted in statistics.',
    }),
    outcome: field(z.enum(valuesOf('aggregate_reports', 'outcome')), { about: 'Processing status.' }),
    reason: field(z.enum(valuesOf('aggregate_reports', 'why')).nullable(), {
      about: 'Reason why the report was rejected. Null if it was not.',
    }),
    format: field(z.enum(valuesOf('aggregate_reports', 'form')).nullable(), {
      about: 'Format of a DMARC report. Null if unknown.',
    }),
    records: count('Number of records that count. For TLS reports, policies.'),
    skipped_records: count(
      'Number of records without IP address or count. For TLS reports, policies of an unknown type.',
    ),
    messages: countOrNull('Number of messages in a DMARC report. Null for a TLS report.'),
    pass: countOrNull('Number of messages that passed DMARC. Null for a TLS report.'),
    fail: countOrNull('Number of messages that failed DMARC. Null for a TLS report.'),
    successful_sessions: countOrNull('Number of successful connections in a TLS report. Null for a DMARC report.'),
    failed_sessions: countOrNull('Number of failed connections in a TLS report. Null for a DMARC report.'),
    warnings: field(z.array(z.string()), { about: 'Errors in the format that did not prevent parsing.' }),
    created_at: { ...time('Time when the report was stored.'), sort: true },
  },
  relationships: { domain: { type: 'domains', column: 'domain_key' } },
  filters: {
    kind: { column: 'kind' },
    outcome: { column: 'outcome' },
    authenticated: { column: 'authenticated', flag: true },
    reporter: { column: 'reporter' },
  },
  extend(rows) {
    for (const row of rows) Object.assign(row, shownReport(row as unknown as ReportRow))
  },
  actions: [
    {
      kind: 'list',
      path: '/domains/:domain/aggregate-reports',
      within: { type: 'domains', column: 'domain_key' },
      id: 'listAggregateReports',
      scope: 'domains:read',
      params: ['filter', 'sort', 'include', 'fields', 'page'],
      about: 'List the reports about a domain, including rejected ones.',
    },
    {
      kind: 'show',
      path: '/aggregate-reports/:aggregateReport',
      scope: 'domains:read',
      about: 'Get a report.',
    },
    {
      kind: 'download',
      path: '/aggregate-reports/:aggregateReport/raw',
      id: 'downloadAggregateReport',
      scope: 'domains:read',
      about: 'Download the message that contained a report. Messages are deleted after some time.',
      run({ parts, row }) {
        if (row.message_key === null)
          throw refuse(
            'not_found',
            'The message that contained this report is no longer stored. Only its results are available.',
          )
        return rawOf(parts, row.message_key)
      },
    },
  ],
})
