// `postrider report read` prints the file of an aggregate report, without a data directory.
import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import type { Command } from 'commander'
import { iso, systemClock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { readNamed } from '../base/plain-file.ts'
import { counted } from '../base/text.ts'
import { answer, table } from '../views/command/terminal.ts'
import type { Invocation } from '../views/command/open.ts'
import { reportReader, type ReportReader } from './reading/readers.ts'
import type { ReadingTimes, SummedReport } from './reading/report.ts'
import { WORDS } from './words.ts'

type ReportSummary = Awaited<ReturnType<typeof summaryOf>>
type DmarcSummary = Extract<ReportSummary, { kind: 'dmarc' }>
type TlsSummary = Extract<ReportSummary, { kind: 'tlsrpt' }>

/** Size of the largest file in bytes: an email with the largest report in base64. */
const MOST = 64 * 1024 * 1024

function dmarcSums(report: Extract<SummedReport, { kind: 'dmarc' }>) {
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

function tlsSums({ policies, skippedPolicies, sums }: Extract<SummedReport, { kind: 'tls' }>) {
  return {
    kind: 'tlsrpt' as const,
    policies: policies.map(({ results, ...policy }) => ({
      ...policy,
      results: Object.fromEntries(results.map(({ sessions, type }) => [type, sessions])),
    })),
    success: sums.success,
    failure: sums.failure,
    ...(skippedPolicies > 0 ? { skipped_policies: skippedPolicies } : {}),
  }
}

/** The sums of the report in a file. */
export async function summaryOf(reader: ReportReader, bytes: Uint8Array, times: ReadingTimes) {
  const sha256 = createHash('sha256').update(bytes).digest('hex').slice(0, 16)
  const reading = await reader.read(bytes, times)
  if (reading.outcome === 'refused') return { ...reading, sha256 }
  const { report } = reading
  const { begin, end, faults, org, reportId } = report
  const head = {
    outcome: 'read' as const,
    org,
    report_id: reportId,
    begin,
    end,
    sha256,
    ...(faults.length > 0 ? { faults } : {}),
  }
  return report.kind === 'dmarc' ? { ...head, ...dmarcSums(report) } : { ...head, ...tlsSums(report) }
}

const minute = (seconds: number): string =>
  iso(seconds * 1000)
    .slice(0, 16)
    .replace('T', ' ')
const sums = (counts: Record<string, number>): string =>
  Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ')

function dmarcLines(summary: DmarcSummary): string[] {
  const { disposition, dkim_pass, domain, fail, messages, pass, policy, records, sources, spf_pass } = summary
  const tags = Object.entries(policy).map(([tag, value]) => `${tag}=${value}`)
  return [
    `Policy of ${domain}: ${tags.join(' ')}`,
    `${counted(messages, 'message')} from ${counted(sources, 'IP address', 'IP addresses')}, in ${counted(records, 'record')}: ${pass} pass (DKIM ${dkim_pass}, SPF ${spf_pass}), ${fail} fail`,
    ...(messages > 0 ? [`Disposition: ${sums(disposition)}`] : []),
    ...(summary.skipped_records
      ? [`${counted(summary.skipped_records, 'record')} without an address or a count skipped`]
      : []),
  ]
}

function tlsLines({ failure, policies, skipped_policies, success }: TlsSummary): string[] {
  return [
    `${counted(success, 'connection')} succeeded, ${failure} failed`,
    table(
      ['POLICY', 'DOMAIN', 'SUCCESS', 'FAILURE', 'RESULTS'],
      policies.map((each) => [each.type, each.domain, each.success, each.failure, sums(each.results)]),
    ),
    ...(skipped_policies ? [`${counted(skipped_policies, 'policy', 'policies')} of unknown type skipped`] : []),
  ]
}

function shown(summary: ReportSummary): string {
  if (summary.outcome === 'refused') return `Rejected (${summary.why}). ${WORDS[summary.why]}`
  const { begin, end, org, report_id } = summary
  const of = summary.kind === 'tlsrpt' ? 'TLS report' : `DMARC report (RFC ${summary.form.slice(3)})`
  return [
    `${of} from ${org || 'an unnamed reporter'}, id ${report_id}`,
    `From ${minute(begin)} to ${minute(end)} UTC`,
    ...(summary.kind === 'dmarc' ? dmarcLines(summary) : tlsLines(summary)),
    ...(summary.faults ? [`Problems: ${summary.faults.join(', ')}`] : []),
  ].join('\n')
}

/** Reads a report in a worker thread, within the limits of a received one. */
async function readWithin(bytes: Uint8Array): Promise<ReportSummary> {
  const reader = reportReader()
  try {
    return await summaryOf(reader, bytes, { now: systemClock.now(), oldest: null })
  } finally {
    await reader.close()
  }
}

/** The bytes of a file. Throws if it is too large for a report. */
function bytesOf(file: string): Uint8Array {
  const found = statSync(file, { throwIfNoEntry: false })
  if (!found?.isFile()) throw new OperatorError(`${file} is not a file; check the path.`)
  if (found.size > MOST)
    throw new OperatorError(`${file} has more than ${MOST / 1024 / 1024} MB; use the file of a single report.`)
  return readNamed(file, MOST)
}

export function reportCommand(program: Command, invocation: () => Invocation): void {
  const report = program.command('report').description('read DMARC and TLS aggregate reports')
  report
    .command('read <file>')
    .description('print a report file (XML, JSON, gzip, zip or email)')
    .action(async (file: string) => {
      const summary = await readWithin(bytesOf(file))
      answer(invocation().terminal, summary, shown)
      if (summary.outcome === 'refused') process.exitCode = 1
    })
}
