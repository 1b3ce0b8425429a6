// What an aggregate report says: of DMARC (RFC 9990, RFC 7489) or of TLS (RFC 8460). All of it is what a stranger
// wrote, within the limits of `LIMITS`; addresses and names are in their canonical forms.

const MB = 1024 * 1024

/** The limits of one report. Past one of them nothing of the report is used (DV54). */
export const LIMITS = {
  /** Octets of a part that is an archive, and of the report itself. */
  archive: 10 * MB,
  unpacked: 20 * MB,
  /** Members of a gzip archive, and entries of a zip archive. */
  members: 1000,
  records: 20_000,
  depth: 32,
  /** Characters of a name, and of the text of an element or an attribute. */
  name: 128,
  text: 4096,
  attributes: 16,
  elements: 2_000_000,
  /** Of one record; the rest is left out. */
  results: 100,
  reasons: 20,
  /** Of one TLS report, and all values of its JSON. */
  policies: 10_000,
  details: 10_000,
  values: 500_000,
  /** Seconds: the longest period of a report, and how far its end may lie ahead. */
  period: 32 * 86_400,
  ahead: 2 * 86_400,
} as const

export type WhyRefused =
  | 'doctype'
  | 'malformed'
  | 'archive'
  | 'too_large'
  | 'not_a_report'
  | 'no_report'
  | 'no_domain'
  | 'no_id'
  | 'date_range'
  | 'too_old'
  | 'no_policy'

/** `encoding`: octets that are not of its encoding were replaced. `case`: a value was in capitals. */
export type ReportFault = 'encoding' | 'case'
export type PassOrFail = 'pass' | 'fail'
/** `pass` is RFC 9990's: the mail passed. A missing or unknown disposition is `none`. */
export type ReportedDisposition = 'none' | 'quarantine' | 'reject' | 'pass'

interface ReportHead {
  /** As the reporter wrote them, trimmed; either may be empty. They prove nothing (DV52). */
  org: string
  email: string
  reportId: string
  /** In whole seconds. */
  begin: number
  end: number
  faults: ReportFault[]
}

/** Why a receiver did not follow the policy: `forwarded`, `mailing_list`, … in lower case. */
export interface OverrideReason {
  type: string
  comment: string
}

export interface DmarcRecord {
  /** The source, in the canonical form of an address. */
  address: string
  count: number
  disposition: ReportedDisposition
  /** Of `policy_evaluated`: aligned and passed. */
  dkim: PassOrFail
  spf: PassOrFail
  /** In lower case; empty when the record names none. */
  headerFrom: string
  /** Domains whose own DKIM signature or SPF record passed (`auth_results`), in lower case, each once. */
  dkimDomains: string[]
  spfDomains: string[]
  reasons: OverrideReason[]
}

export const POLICY_TAGS = ['p', 'sp', 'np', 'adkim', 'aspf', 'pct', 'testing', 'discovery_method'] as const
/** The tags of `policy_published` that the report has, in lower case. */
export type ReportedPolicy = Partial<Record<(typeof POLICY_TAGS)[number], string>>

export interface DmarcReport extends ReportHead {
  kind: 'dmarc'
  form: 'rfc9990' | 'rfc7489'
  /** The domain of the policy, in lower case, without a final dot. */
  domain: string
  policy: ReportedPolicy
  /** Records without an address or a whole count. */
  skippedRecords: number
}

export const TLS_POLICY_TYPES = ['sts', 'tlsa', 'no-policy-found'] as const
export type TlsPolicyType = (typeof TLS_POLICY_TYPES)[number]

export interface TlsPolicyReport {
  type: TlsPolicyType
  /** In lower case; may be empty. */
  domain: string
  /** Sessions, of the summary (DV43). */
  success: number
  failure: number
  /** Sessions of the details, each result type once; their sum need not be `failure`. */
  results: TlsResult[]
}

/** A type as the reporter wrote it, known or not. */
export interface TlsResult {
  type: string
  sessions: number
}

export interface TlsReport extends ReportHead {
  kind: 'tls'
  policies: TlsPolicyReport[]
  /** Policies of a type that RFC 8460 does not know. */
  skippedPolicies: number
}

export type AggregateReport = DmarcReport | TlsReport

/** What a reader found; the records of a DMARC report went to who asked, one by one. */
export type WholeReading = { outcome: 'read'; report: AggregateReport } | { outcome: 'refused'; why: WhyRefused }

/** Sums over the records of a DMARC report: counts of messages, but for `records` and `sources`. */
export interface DmarcSums {
  records: number
  messages: number
  pass: number
  dkimPass: number
  spfPass: number
  dispositions: Partial<Record<ReportedDisposition, number>>
  /** Different addresses. */
  sources: number
}

/** Sums over the policies of a TLS report. */
export interface TlsSums {
  policies: number
  success: number
  failure: number
  /** What they are about, each once. */
  about: Pick<TlsPolicyReport, 'type' | 'domain'>[]
}

/** A report in sums. Its rows are handed over in pieces. */
export type SummedReport = (DmarcReport & { sums: DmarcSums }) | (Omit<TlsReport, 'policies'> & { sums: TlsSums })

export type ReportReading =
  | {
      outcome: 'read'
      report: SummedReport
      /** All its rows, as JSON, when they are one piece at most; null: more. */
      rows: string | null
    }
  | { outcome: 'refused'; why: WhyRefused }

/**
 * Thrown while a report is read. `isReport`: what was read is a report all the same, so that no other part of its
 * message is looked at.
 */
export class UnreadableReport extends Error {
  readonly why: WhyRefused
  readonly isReport: boolean

  constructor(why: WhyRefused, isReport = true) {
    super(why)
    this.why = why
    this.isReport = isReport
  }
}

export interface ReadingTimes {
  /** Milliseconds. */
  now: number
  /** A report that ended before this time (milliseconds) is too old; null: any age is read. */
  oldest: number | null
}
