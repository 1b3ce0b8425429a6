// The tables of aggregate reports: each received report, and the reported metrics by day. They contain no recipients.
import { blob, flag, id, integer, key, oneOf, real, tablesOf, text, time } from './table.ts'

const SAID = 'what another server said'
const MACHINE = 'a server or an organisation'

/** First the results of the reader (reports/reading/report.ts), then those of the receipt. */
const WHY_REFUSED = [
  'doctype',
  'malformed',
  'archive',
  'too_large',
  'not_a_report',
  'no_report',
  'no_domain',
  'no_id',
  'date_range',
  'too_old',
  'no_policy',
  'unauthenticated',
  'foreign',
  'duplicate',
  'too_many',
  'virus',
] as const

export const reportsTables = tablesOf('reports', {
  /** Each received report with its result. */
  aggregate_reports: {
    undigested: 'what others said, and figures',
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      /** The domain of the report. For a rejected report, the domain of the address. */
      domain_key: integer(),
      /** The message, as long as it is kept. */
      message_key: integer({ null: true }),
      kind: oneOf(['dmarc', 'tls']),
      /** The organisational domain of the author, which is proven when `authenticated`, or '' without one. */
      reporter: text({ nobody: MACHINE }),
      authenticated: flag(),
      /** The name that the report gives its organisation, where that is not `reporter`. */
      org: text({ null: true, person: 'mark' }),
      report_id: text({ null: true, person: 'mark' }),
      /** Identifies a report that is received again. Null if it is not counted. */
      fingerprint: blob({ null: true, undigested: SAID, nobody: 'a hash' }),
      begin_at: time({ null: true }),
      end_at: time({ null: true }),
      outcome: oneOf(['read', 'refused']),
      why: oneOf(WHY_REFUSED, { null: true }),
      form: oneOf(['rfc7489', 'rfc9990'], { null: true }),
      /** Records of DMARC, policies of TLS. */
      records: integer(),
      skipped_records: integer(),
      /** Messages of DMARC, sessions of TLS. */
      passed: integer(),
      failed: integer(),
      /** Names of faults, separated by spaces. */
      faults: text({ nobody: 'words of a list' }),
      created_at: time(),
    },
  },
  /** Numbers of messages by source and day, from authenticated DMARC reports of all reporters. */
  dmarc_figures: {
    undigested: 'figures',
    columns: {
      user_key: integer(),
      domain_key: integer(),
      /** Days since the epoch, by the start of the report. */
      day: integer(),
      /** '' for all unknown sources that are not stored one by one. A named network for its addresses that are not. */
      address: text({ nobody: 'the address of a machine' }),
      /** Number of IP addresses. For several, an upper limit. */
      addresses: integer(),
      messages: integer(),
      /** Messages that passed DMARC, with aligned DKIM, and with aligned SPF. */
      pass: integer(),
      dkim_pass: integer(),
      spf_pass: integer(),
      /** Messages by the disposition that receivers reported. `passed` is the disposition `pass`. */
      none: integer(),
      quarantine: integer(),
      reject: integer(),
      passed: integer(),
      /** Messages that are evidence (evidence.ts), those of them that passed, and those with a pass for any domain. */
      evidence: real(),
      evidence_pass: real(),
      evidence_proven: real(),
      /** Receivers reported that messages were forwarded or came from a mailing list. */
      forwarded: flag(),
      /** At least one message had an aligned pass of both DKIM and SPF. */
      both: flag(),
      /** Names, each between two spaces. */
      reporters: text({ nobody: MACHINE }),
      dkim_domains: text({ nobody: MACHINE }),
      spf_domains: text({ nobody: MACHINE }),
    },
  },
  /** Numbers of TLS connections, from TLS reports. */
  tls_figures: {
    undigested: 'figures',
    columns: {
      user_key: integer(),
      domain_key: integer(),
      day: integer(),
      reporter: text({ nobody: MACHINE }),
      policy_type: oneOf(['sts', 'tlsa', 'no-policy-found']),
      policy_domain: text({ nobody: 'a domain' }),
      success: integer(),
      failure: integer(),
      /** {type: sessions} */
      results: text({ nobody: 'words of RFC 8460' }),
    },
  },
  /** Addresses that send in a domain's name and that its owner knows. */
  known_sources: {
    undigested: 'names that the owner gave to addresses of machines',
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      domain_key: integer(),
      /** An address, or a network in CIDR form. */
      network: text({ nobody: 'the address of a machine' }),
      name: text({ person: 'mark' }),
      created_at: time(),
    },
  },
})
