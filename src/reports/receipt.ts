// Records a received report and adds it to the figures, in the transaction that settles its message. A report that is
// not authenticated is listed but not counted.
import type { ReceivedReport } from '../parts/received.ts'
import { createHash } from 'node:crypto'
import { asKey } from '../base/clean-text.ts'
import { DAY, SECOND, dayOf } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { counters } from '../base/counters.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { knownDomain, domainByKey, type Domain } from '../domains/find.ts'
import { organisationalDomain } from '../message/address.ts'
import type { NewRow, RowOf } from '../store/schema/tables.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { addDmarcFigures } from './dmarc-figures.ts'
import { evidenceShare } from './evidence.ts'
import { noticeOnce, notifyOfTlsTrouble } from './notices.ts'
import type { ReportReading, SummedReport } from './reading/report.ts'
import { addTlsFigures, ownPolicies } from './tls-figures.ts'

/** The most reports about a domain and day from one reporter, and from all reporters. */
export const MOST = { ofReporter: 50, ofDomain: 2000 } as const
/** The most characters of a name or an id in a report. */
const MAX_CLIPPED = 255

export type ReportRow = RowOf<'aggregate_reports'>
type Why = NonNullable<ReportRow['why']>

export interface ReceiptDeps {
  log: Log
  config: Pick<Config, 'hostname' | 'reports' | 'delivery'>
}

/** A message to one of the report addresses, with its content. */
export interface ReportMail extends ReceivedReport {
  reading: ReportReading | undefined
}

interface JudgedReport {
  domain: Domain
  reporter: string
  authenticated: boolean
  report: SummedReport | undefined
  why: Why | undefined
  fingerprint: Buffer | undefined
}

/** Records one report. False if it is not kept and its message is not needed. */
export function recordReport(tx: Tx, { config, log }: ReceiptDeps, mail: ReportMail, now: number): boolean {
  const domain = domainByKey(tx, mail.domain)
  if (!domain) return false
  const kind = mail.reading?.outcome === 'read' ? mail.reading.report.kind : mail.about
  const authenticated = mail.author !== null && (kind === 'tls' ? mail.signed : mail.dmarcPassed)
  count(tx, 'aggregate_report')
  if (kind === 'dmarc' && !authenticated && config.reports.unauthenticated === 'drop') return false
  const reporter = mail.author ?? ''
  const crowd = crowdOf(tx, domain.key, { reporter, authenticated }, now)
  if (crowd !== undefined) {
    log.warn('aggregate_report_dropped', { domain: domain.name, reporter, authenticated })
    return crowd === 'first' ? tooMany(tx, domain, { kind, reporter, authenticated }, now) : false
  }
  const judged = judge(tx, config.hostname, domain, { mail, reporter, authenticated })
  const counts = judged.why === undefined && authenticated
  // The evidence depends on the reports before this one.
  const share = counts ? shareOf(tx, judged, now) : 0
  insert(tx, kind, judged, mail.messageKey, now)
  log.info('aggregate_report_received', {
    domain: judged.domain.name,
    kind,
    reporter,
    authenticated,
    result: judged.why ?? 'read',
  })
  if (counts) addFigures(tx, config, judged, share, now)
  return true
}

const count = (tx: Tx, outcome: string): void => tx.afterCommit(() => counters.inbound.add({ outcome }))

/** Whether too many reports arrived within a day. Reports that are not authenticated do not displace others. */
function crowdOf(
  tx: Tx,
  domainKey: number,
  { authenticated, reporter }: Pick<JudgedReport, 'authenticated' | 'reporter'>,
  now: number,
): 'first' | 'more' | undefined {
  const { all, own, notified } = tx.one(
    raw<{ all: number; own: number; notified: number }>(
      `select count(*) as "all", coalesce(sum(reporter = ?), 0) as own,
         coalesce(sum(why = 'too_many' and reporter = ?), 0) as notified
       from aggregate_reports where domain_key = ? and created_at > ? and authenticated = ?`,
      [reporter, reporter, domainKey, now - DAY, authenticated ? 1 : 0],
    ),
  )
  if (all < MOST.ofDomain && own < MOST.ofReporter) return undefined
  return notified === 0 && all <= MOST.ofDomain ? 'first' : 'more'
}

/** Adds one row for all reports of a reporter beyond the limit, and one notice per day for the domain. */
function tooMany(
  tx: Tx,
  domain: Domain,
  { authenticated, kind, reporter }: Pick<JudgedReport, 'authenticated' | 'reporter'> & Pick<ReportRow, 'kind'>,
  now: number,
): false {
  const judged = {
    domain,
    reporter,
    authenticated,
    report: undefined,
    why: 'too_many',
    fingerprint: undefined,
  } as const
  insert(tx, kind, judged, null, now)
  noticeOnce(
    tx,
    domain,
    `Too many reports about ${domain.name}`,
    `Postrider reads at most ${MOST.ofReporter} reports per domain and day from one reporter, and ${MOST.ofDomain} from all reporters. More arrived${
      reporter === '' ? '' : `, for example from ${reporter}`
    }. They were discarded and are not counted. You do not have to do anything. The extra reports may be forged.`,
    now,
  )
  return false
}

function judge(
  tx: Tx,
  hostname: string,
  addressed: Domain,
  { authenticated, mail, reporter }: Pick<JudgedReport, 'authenticated' | 'reporter'> & { mail: ReportMail },
): JudgedReport {
  const { infected, reading } = mail
  const refused = (why: Why): JudgedReport => ({
    domain: addressed,
    reporter,
    authenticated,
    report: reading?.outcome === 'read' ? reading.report : undefined,
    why,
    fingerprint: undefined,
  })
  if (infected) return refused('virus')
  if (reading?.outcome !== 'read') return refused(reading?.why ?? 'malformed')
  const { report } = reading
  if (report.kind === 'tls' && !authenticated) return refused('unauthenticated')
  const about = report.kind === 'dmarc' ? report.domain : ownPolicies(report.policies, addressed, hostname)[0]?.domain
  if (about === undefined) return refused('foreign')
  const domain = report.kind === 'dmarc' ? domainOf(tx, addressed, about) : addressed
  if (!domain) return refused('foreign')
  const fingerprint = fingerprintOf(domain, { authenticated, reporter, report })
  const known = tx.first(db.selectFrom('aggregate_reports').select('key').where('fingerprint', '=', fingerprint))
  return known ? refused('duplicate') : { ...refused('foreign'), domain, why: undefined, fingerprint }
}

const organisationOf = (name: string): string => organisationalDomain(name) ?? name

/**
 * The account's domain that a report is about: the domain of this name, otherwise the domain of the address if it is of
 * the same family (D22) and no other account sends from the name.
 */
function domainOf(reader: Reader, addressed: Domain, name: string): Domain | undefined {
  if (name === addressed.name) return addressed
  if (organisationOf(name) !== organisationOf(addressed.name)) return undefined
  const named = reader.all(
    db
      .selectFrom('domains')
      .select(['key', 'user_key', 'status'])
      .where('name', '=', name)
      .where('deleted_at', 'is', null)
      .orderBy('key'),
  )
  const own = named.find(({ user_key }) => user_key === addressed.user_key)
  if (own) return knownDomain(reader, own.key)
  return named.some(({ status }) => status === 'active') ? undefined : addressed
}

/**
 * Equal for the same report of the same reporter, however its id is spelled. A report that is not authenticated never
 * makes another one a duplicate.
 */
function fingerprintOf(
  domain: Domain,
  { authenticated, report, reporter }: Pick<JudgedReport, 'authenticated' | 'reporter'> & { report: SummedReport },
): Buffer {
  const { begin, kind, reportId } = report
  const parts = [
    domain.key,
    kind,
    authenticated,
    reporter,
    asKey(reportId),
    kind === 'dmarc' ? report.domain : '',
    begin,
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest().subarray(0, 8)
}

function insert(tx: Tx, kind: ReportRow['kind'], judged: JudgedReport, message_key: number | null, now: number): void {
  const { authenticated, domain, fingerprint, report, reporter, why } = judged
  const row: NewRow<'aggregate_reports'> = {
    id: newId(now),
    user_key: domain.user_key,
    domain_key: domain.key,
    message_key,
    kind,
    reporter,
    authenticated: authenticated ? 1 : 0,
    org: report && report.org !== '' && report.org !== reporter ? clipped(report.org) : null,
    report_id: report ? clipped(report.reportId) : null,
    fingerprint: fingerprint ?? null,
    begin_at: report ? report.begin * 1000 : null,
    end_at: report ? report.end * 1000 : null,
    outcome: why === undefined ? 'read' : 'refused',
    why: why ?? null,
    form: report?.kind === 'dmarc' ? report.form : null,
    // A rejected report has no sums.
    ...sumsOf(why === undefined ? report : undefined),
    faults: report?.faults.join(' ') ?? '',
    created_at: now,
  }
  tx.run(db.insertInto('aggregate_reports').values(row))
}

const clipped = (text: string): string => text.slice(0, MAX_CLIPPED).toWellFormed()

function sumsOf(
  report: SummedReport | undefined,
): Pick<ReportRow, 'records' | 'skipped_records' | 'passed' | 'failed'> {
  if (!report) return { records: 0, skipped_records: 0, passed: 0, failed: 0 }
  if (report.kind === 'tls') {
    const { failure, policies, success } = report.sums
    return { records: policies, skipped_records: report.skippedPolicies, passed: success, failed: failure }
  }
  const { messages, pass, records } = report.sums
  return { records, skipped_records: report.skippedRecords, passed: pass, failed: messages - pass }
}

/** The part of a DMARC report that is evidence. */
function shareOf(reader: Reader, { domain, report, reporter }: JudgedReport, now: number): number {
  if (report?.kind !== 'dmarc') return 0
  const { begin, end, sums } = report
  const { messages } = sums
  return evidenceShare(reader, { domainKey: domain.key, reporter, begin: begin * 1000, end: end * 1000, messages }, now)
}

function addFigures(
  tx: Tx,
  config: ReceiptDeps['config'],
  { domain, report, reporter }: JudgedReport,
  share: number,
  now: number,
): void {
  if (!report) return
  const day = dayOf(report.begin * SECOND)
  if (report.kind === 'dmarc')
    return addDmarcFigures(tx, config, domain, { day, reporter, sources: report.sources, share })
  addTlsFigures(tx, domain, { day, reporter, policies: ownPolicies(report.policies, domain, config.hostname) })
  notifyOfTlsTrouble(tx, domain, day, now)
}
