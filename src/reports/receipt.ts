// Records a report that came: whose it is, who says it, whether it counts, and what it says, in the transaction in
// which its message ends to wait. What nobody proves is listed and counts in nothing (DV52).
import { createHash } from 'node:crypto'
import { asKey } from '../base/clean-text.ts'
import { DAY } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { counters } from '../base/counters.ts'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { knownDomain, domainByKey, type Domain } from '../domains/find.ts'
import { organisationalDomain } from '../message/address.ts'
import type { NewRow, RowOf } from '../schema/tables.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { noticeOnce } from './notice-once.ts'
import { storeRows, type ReportFigures } from './pieces.ts'
import type { ReportReading, SummedReport } from './reading/report.ts'
import { evidenceShare } from './share.ts'
import { dayOf, ownPolicies } from './tls-figures.ts'

/** The most reports of one reporter about a domain in a day, and of all reporters. */
export const MOST = { ofReporter: 50, ofDomain: 2000 } as const
/** The most characters of a name or an id that a report gives. */
const MAX_SAID = 255

export type ReportRow = RowOf<'aggregate_reports'>
type Why = NonNullable<ReportRow['why']>

export interface ReceiptDeps {
  log: Log
  config: Pick<Config, 'hostname' | 'reports'>
  /** Counts what the reports say. */
  figures: Pick<ReportFigures, 'ring'>
}

/** A message at one of the addresses for reports. */
export interface ReportMail {
  messageKey: number
  /** The address's domain, and what it takes reports about. */
  domain: number
  about: 'dmarc' | 'tls'
  reading: ReportReading | undefined
  /** The organisational domain of its author, whether DMARC passed for it, and whether its signature covers all. */
  author: string | null
  dmarcPassed: boolean
  signed: boolean
  /** The scanner found a virus in it. */
  infected: boolean
}

interface JudgedReport {
  domain: Domain
  reporter: string
  authenticated: boolean
  report: SummedReport | undefined
  why: Why | undefined
  fingerprint: Buffer | undefined
}

/** Records one report. False: nothing of it is kept, and its message is not needed. */
export function recordReport(tx: Tx, { config, figures, log }: ReceiptDeps, mail: ReportMail, now: number): boolean {
  const domain = domainByKey(tx, mail.domain)
  if (!domain) return false
  const kind = mail.reading?.outcome === 'read' ? mail.reading.report.kind : mail.about
  const authenticated = mail.author !== null && (kind === 'tls' ? mail.signed : mail.dmarcPassed)
  count(tx, 'aggregate_report')
  if (kind === 'dmarc' && !authenticated && config.reports.unauthenticated === 'drop') return false
  const reporter = mail.author ?? ''
  const crowd = crowdOf(tx, domain.key, { reporter, authenticated }, now)
  if (crowd !== undefined) {
    log.warn('too many reports', { domain: domain.name, reporter, authenticated })
    return crowd === 'first' ? tooMany(tx, domain, { kind, reporter, authenticated }, now) : false
  }
  const judged = judge(tx, config.hostname, domain, { mail, reporter, authenticated })
  const share = shareOf(tx, judged, now)
  insert(tx, kind, judged, mail.messageKey, now)
  log.info('aggregate report', { domain: judged.domain.name, kind, reporter, authenticated, why: judged.why ?? 'read' })
  if (judged.why === undefined && authenticated) countIn(tx, figures, judged, mail, share)
  return true
}

const count = (tx: Tx, outcome: string): void => tx.afterCommit(() => counters.inbound.add({ outcome }))

/** Whether too many came within a day (DV53). Those of nobody crowd out no proven ones. */
function crowdOf(
  tx: Tx,
  domainKey: number,
  { authenticated, reporter }: Pick<JudgedReport, 'authenticated' | 'reporter'>,
  now: number,
): 'first' | 'more' | undefined {
  const { all, own, told } = tx.one(
    raw<{ all: number; own: number; told: number }>(
      `select count(*) as "all", coalesce(sum(reporter = ?), 0) as own,
         coalesce(sum(why = 'too_many' and reporter = ?), 0) as told
       from aggregate_reports where domain_key = ? and created_at > ? and authenticated = ?`,
      [reporter, reporter, domainKey, now - DAY, authenticated ? 1 : 0],
    ),
  )
  if (all < MOST.ofDomain && own < MOST.ofReporter) return undefined
  return told === 0 && all <= MOST.ofDomain ? 'first' : 'more'
}

/** One row for all that are too many of a reporter, and one notice a day for the domain. */
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
    `More reports about ${domain.name} than are read`,
    `Of one reporter ${MOST.ofReporter} reports about a domain are read in a day, of all ${MOST.ofDomain}. More came${
      reporter === '' ? '' : `, among others from ${reporter}`
    }; they are not kept, and no figure counts them. Nothing is to do: others may be sending reports that are not real.`,
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
  const about = report.kind === 'dmarc' ? report.domain : ownPolicies(report.sums.about, addressed, hostname)[0]?.domain
  if (about === undefined) return refused('foreign')
  const domain = report.kind === 'dmarc' ? domainOf(tx, addressed, about) : addressed
  if (!domain) return refused('foreign')
  const fingerprint = fingerprintOf(domain, { authenticated, reporter, report })
  const known = tx.first(db.selectFrom('aggregate_reports').select('key').where('fingerprint', '=', fingerprint))
  return known ? refused('duplicate') : { ...refused('foreign'), domain, why: undefined, fingerprint }
}

const organisationOf = (name: string): string => organisationalDomain(name) ?? name

/**
 * The account's domain that a report is about: the very one, else the address's own one of the same family (D22), as
 * long as no other account sends from that name.
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
 * The same for the same report of the same reporter (DV51), however its id is spelled; what nobody proves makes nothing
 * else a duplicate.
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
    org: report && report.org !== '' && report.org !== reporter ? said(report.org) : null,
    report_id: report ? said(report.reportId) : null,
    fingerprint: fingerprint ?? null,
    begin_at: report ? report.begin * 1000 : null,
    end_at: report ? report.end * 1000 : null,
    outcome: why === undefined ? 'read' : 'refused',
    why: why ?? null,
    form: report?.kind === 'dmarc' ? report.form : null,
    // What is refused says nothing.
    ...sumsOf(why === undefined ? report : undefined),
    faults: report?.faults.join(' ') ?? '',
    created_at: now,
  }
  tx.run(db.insertInto('aggregate_reports').values(row))
}

const said = (text: string): string => text.slice(0, MAX_SAID).toWellFormed()

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

/** The share of a DMARC report that is evidence. */
const shareOf = (reader: Reader, { domain, report, reporter, why }: JudgedReport, now: number): number =>
  report?.kind === 'dmarc' && why === undefined
    ? evidenceShare(
        reader,
        {
          domainKey: domain.key,
          reporter,
          begin: report.begin * 1000,
          end: report.end * 1000,
          messages: report.sums.messages,
        },
        now,
      )
    : 0

/** Hands what a report says to the figures. */
function countIn(
  tx: Tx,
  figures: ReceiptDeps['figures'],
  { domain, report, reporter }: JudgedReport,
  mail: ReportMail,
  share: number,
): void {
  if (!report || mail.reading?.outcome !== 'read') return
  const { key: domain_key, user_key } = domain
  const piece = { user_key, domain_key, kind: report.kind, day: dayOf(report.begin), reporter, share }
  storeRows(tx, piece, mail.reading.rows, mail.messageKey)
  tx.afterCommit(() => figures.ring())
}
