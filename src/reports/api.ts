// The aggregate reports that came about a domain, each with what became of it.
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, time, timeOrNull, wordsOrNull } from '../jsonapi/fields.ts'
import { definer, field } from '../jsonapi/resource.ts'
import { valuesOf } from '../schema/tables.ts'
import type { ReportRow } from './receipt.ts'

const countOrNull = (about: string) => field(z.int().nullable(), { about })

export interface ReportParts {
  operations: {
    /** The message of a report, as it came. Throws 404 when it is no longer kept. */
    reportMessage(messageKey: number): Promise<Response>
  }
}

export const aggregateReports = definer<ApiDeps & ReportParts>()('aggregate-reports', {
  table: 'aggregate_reports',
  about: `Reports of others about the mail of a domain (DMARC) and about connections to it (TLS). ${EXTENSION}`,
  attributes: {
    kind: field(z.enum(valuesOf('aggregate_reports', 'kind')), { about: 'What it is about.' }),
    reporter: wordsOrNull('The organisational domain of its author; proven when authenticated.'),
    org: wordsOrNull('The organisation as the report names it, which proves nothing; else the reporter.'),
    report_id: wordsOrNull('Its id, as the reporter gave it.'),
    begin: timeOrNull('The beginning of the time that it is about.'),
    end: timeOrNull('The end of that time.'),
    received_at: time('When it came.'),
    authenticated: field(z.boolean(), {
      kind: 'flag',
      about:
        'Whether its mail proves its author: DMARC passed, or for TLS a DKIM signature of all of it. Others count in nothing.',
    }),
    outcome: field(z.enum(valuesOf('aggregate_reports', 'outcome')), { about: 'Whether it could be read and counts.' }),
    why: field(z.enum(valuesOf('aggregate_reports', 'why')).nullable(), { about: 'Why it was refused.' }),
    form: field(z.enum(valuesOf('aggregate_reports', 'form')).nullable(), { about: 'The form of a DMARC report.' }),
    records: count('Its records that count; of TLS its policies.'),
    skipped_records: count('Records without an address or a count; policies of an unknown type.'),
    messages: countOrNull('Messages that a DMARC report is about.'),
    pass: countOrNull('Those that passed DMARC.'),
    fail: countOrNull('Those that failed it.'),
    success: countOrNull('Connections that a TLS report calls successful.'),
    failure: countOrNull('Connections that it calls failed.'),
    faults: field(z.array(z.string()), { about: 'Faults of its form that did not prevent reading it.' }),
    created_at: { ...time('When it was recorded.'), sort: true },
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
      about: `List the reports about a domain, refused ones too. ${EXTENSION}`,
    },
    {
      kind: 'show',
      path: '/aggregate-reports/:aggregateReport',
      scope: 'domains:read',
      about: `Show a report. ${EXTENSION}`,
    },
    {
      kind: 'download',
      path: '/aggregate-reports/:aggregateReport/raw',
      id: 'downloadAggregateReport',
      scope: 'domains:read',
      about: `The message that brought it, as long as it is kept. ${EXTENSION}`,
      run({ parts, row }) {
        if (row.message_key === null) throw refuse('not_found', 'The message is no longer kept.')
        return parts.operations.reportMessage(row.message_key)
      },
    },
  ],
})

/** What answers and commands show of a report, beyond its columns. */
export function shownReport(row: ReportRow) {
  const { begin_at, created_at, end_at, faults, kind, org, outcome, passed, failed, reporter } = row
  const [dmarc, tls] = [kind === 'dmarc' && outcome === 'read', kind === 'tls' && outcome === 'read']
  return {
    reporter: reporter === '' ? null : reporter,
    org: org ?? (reporter === '' ? null : reporter),
    begin: begin_at,
    end: end_at,
    received_at: created_at,
    messages: dmarc ? passed + failed : null,
    pass: dmarc ? passed : null,
    fail: dmarc ? failed : null,
    success: tls ? passed : null,
    failure: tls ? failed : null,
    faults: faults.split(' ').filter((fault) => fault !== ''),
  }
}
