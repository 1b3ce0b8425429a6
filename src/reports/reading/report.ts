// The contents of an aggregate report: DMARC (RFC 9990, RFC 7489) or TLS (RFC 8460). All of it is untrusted, within the
// limits of `LIMITS`. Addresses and names are in their canonical forms.

const MB = 1024 * 1024

/** The limits of one report. A report beyond one of them is rejected as a whole. */
export const LIMITS = {
  /** Bytes of an archive, and of the report itself. */
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
  /** Per record. The rest is ignored. */
  results: 100,
  reasons: 20,
  /** Per TLS report, and all values of its JSON. */
  policies: 10_000,
  details: 10_000,
  values: 500_000,
  /** Seconds: the longest period of a report, and the most that its end can be in the future. */
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

/** `encoding`: bytes that are invalid in its encoding were replaced. `case`: a value was in capitals. */
export type ReportFault = 'encoding' | 'case'
export type PassOrFail = 'pass' | 'fail'
/** `pass` is from RFC 9990: the message passed. A missing or unknown disposition is `none`. */
export type ReportedDisposition = 'none' | 'quarantine' | 'reject' | 'pass'

interface ReportHead {
  /** As in the report, trimmed. Either can be empty. They are not proven. */
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
  /** In lower case, or empty if the record has no such name. */
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
  /** In lower case. Can be empty. */
  domain: string
  /** Sessions of the summary. */
  success: number
  failure: number
  /** Sessions of the details, each result type once. Their sum can differ from `failure`. */
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
  /** Policies of a type that is not in RFC 8460. */
  skippedPolicies: number
}

export type AggregateReport = DmarcReport | TlsReport

/** The result of reading a report. The records of a DMARC report went to a callback, one by one. */
export type WholeReading = { outcome: 'read'; report: AggregateReport } | { outcome: 'refused'; why: WhyRefused }

/** Sums over the records of a DMARC report: numbers of messages, except `records` and `sources`. */
export interface DmarcSums {
  records: number
  messages: number
  pass: number
  dkimPass: number
  spfPass: number
  dispositions: Partial<Record<ReportedDisposition, number>>
  /** Distinct IP addresses. */
  sources: number
}

/** Numbers of messages from a source, or from several. */
export interface SourceSums {
  /** '' for several sources that are not kept one by one. */
  address: string
  /** Number of IP addresses. */
  addresses: number
  messages: number
  pass: number
  dkim_pass: number
  spf_pass: number
  none: number
  quarantine: number
  reject: number
  passed: number
  /** Messages with a DKIM or SPF pass for any domain. */
  proven: number
  /** 1: receivers reported that messages were forwarded or came from a mailing list. */
  forwarded: number
  /** 1: at least one message had an aligned pass of both DKIM and SPF. */
  both: number
  /** Names of domains, each between two spaces. */
  dkim_domains: string
  spf_domains: string
}

/** Sums over the policies of a TLS report. */
export interface TlsSums {
  policies: number
  success: number
  failure: number
}

/** A report as the server receives it from the worker thread: with its largest sources or policies only. */
export type SummedReport = (DmarcReport & { sums: DmarcSums; sources: SourceSums[] }) | (TlsReport & { sums: TlsSums })

export type ReportReading = { outcome: 'read'; report: SummedReport } | { outcome: 'refused'; why: WhyRefused }

/**
 * Thrown while a report is read. `isReport`: the content is a report nevertheless, so the other parts of its
 * message are not read.
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
  /** A report that ended before this time (milliseconds) is too old. Null: any age is read. */
  oldest: number | null
}
