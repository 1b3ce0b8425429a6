// `postrider report read`: what the file of an aggregate report holds. It asks no data directory and stores nothing.
import { statSync } from 'node:fs'
import type { Command } from 'commander'
import { iso, systemClock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { readNamed } from '../base/plain-file.ts'
import { counted } from '../base/text.ts'
import { answer, table } from '../commands/terminal.ts'
import type { Invocation } from '../commands/open.ts'
import { reportReader } from './reading/readers.ts'
import { summaryOf, WORDS, type DmarcSummary, type ReportSummary, type TlsSummary } from './reading/summary.ts'

/** Octets of the largest file that is read: a mail with the largest report in base64. */
const MOST = 64 * 1024 * 1024

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
    `${counted(messages, 'message')} of ${sources === 1 ? '1 address' : `${sources} addresses`}, in ${counted(records, 'record')}: ${pass} pass (DKIM ${dkim_pass}, SPF ${spf_pass}), ${fail} fail`,
    ...(messages > 0 ? [`What was done: ${sums(disposition)}`] : []),
    ...(summary.skipped_records
      ? [`${summary.skipped_records} records without an address or a count were skipped`]
      : []),
  ]
}

function tlsLines({ failure, policies, skipped_policies, success }: TlsSummary): string[] {
  return [
    `${counted(success, 'connection')} worked, ${failure} failed`,
    table(
      ['POLICY', 'DOMAIN', 'SUCCESS', 'FAILURE', 'RESULTS'],
      policies.map((each) => [each.type, each.domain, each.success, each.failure, sums(each.results)]),
    ),
    ...(skipped_policies ? [`${skipped_policies} policies of unknown types were skipped`] : []),
  ]
}

function shown(summary: ReportSummary): string {
  if (summary.outcome === 'refused') return `Refused (${summary.why}). ${WORDS[summary.why]}`
  const { begin, end, org, report_id } = summary
  const of = summary.kind === 'tlsrpt' ? 'TLS report' : `DMARC report (RFC ${summary.form.slice(3)})`
  return [
    `${of} of ${org || 'an unnamed reporter'}, id ${report_id}`,
    `From ${minute(begin)} to ${minute(end)} UTC`,
    ...(summary.kind === 'dmarc' ? dmarcLines(summary) : tlsLines(summary)),
    ...(summary.faults ? [`Faults: ${summary.faults.join(', ')}`] : []),
  ].join('\n')
}

/** Reads a report in a worker thread, within the limits that a received one has. */
async function readWithin(octets: Uint8Array): Promise<ReportSummary> {
  const reader = reportReader()
  try {
    return await summaryOf(reader, octets, { now: systemClock.now(), oldest: null })
  } finally {
    await reader.close()
  }
}

/** The octets of a file that is not too large to hold a report. */
function octetsOf(file: string): Uint8Array {
  const found = statSync(file, { throwIfNoEntry: false })
  if (!found?.isFile()) throw new OperatorError(`There is no file ${file}.`)
  if (found.size > MOST)
    throw new OperatorError(`${file} has more than ${MOST / 1024 / 1024} MB: no report is so large.`)
  return readNamed(file, MOST)
}

export function reportCommand(program: Command, invocation: () => Invocation): void {
  const report = program.command('report').description('aggregate reports of DMARC and TLS')
  report
    .command('read <file>')
    .description('say what a report holds: XML, JSON, gzip, zip or a whole mail; nothing is stored')
    .action(async (file: string) => {
      const summary = await readWithin(octetsOf(file))
      answer(invocation().terminal, summary, shown)
      if (summary.outcome === 'refused') process.exitCode = 1
    })
}
