// The tables of aggregate reports: what came, and what the reports say by day. Nothing in them names a recipient.
import { blob, flag, id, integer, json, key, oneOf, real, tablesOf, text, time } from './table.ts'

const SAID = 'what another server said'
const MACHINE = 'a server or an organisation'

/** What the reader says (reports/reading/report.ts), then what the receipt says. */
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
  /** Each report that came, with what became of it. */
  aggregate_reports: {
    undigested: 'what others said, and figures',
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      /** The domain that it is about; of a refused one the domain of the address. */
      domain_key: integer(),
      /** The message, as long as it is kept. */
      message_key: integer({ null: true }),
      kind: oneOf(['dmarc', 'tls']),
      /** The organisational domain of the author, which is proven when `authenticated`; '' without one. */
      reporter: text({ nobody: MACHINE }),
      authenticated: flag(),
      /** The name that the report gives its organisation, where that is not `reporter`. */
      org: text({ null: true, person: 'mark' }),
      report_id: text({ null: true, person: 'mark' }),
      /** What makes it the same report when it comes again; null when it counts in nothing. */
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
  /** What authenticated DMARC reports say, summed over reporters. */
  dmarc_figures: {
    undigested: 'figures',
    columns: {
      user_key: integer(),
      domain_key: integer(),
      /** Days since the epoch, by the beginning of the report. */
      day: integer(),
      /** '' for the sum of strangers beyond the most rows of a day; a named network for the sum of its own. */
      address: text({ nobody: 'the address of a machine' }),
      header_from: text({ nobody: 'a domain' }),
      dkim: flag(),
      spf: flag(),
      disposition: oneOf(['none', 'quarantine', 'reject', 'pass']),
      /** Receivers said that the mail was forwarded, or came from a list. */
      forwarded: flag(),
      messages: integer(),
      /** The messages that are evidence: what came late, or beyond what one provider may say, is none. */
      evidence: real(),
      /** How many addresses a sum stands for, at most; 0 for a row of one address. */
      addresses: integer(),
      /** Names, each between two spaces. */
      reporters: text({ nobody: MACHINE }),
      dkim_domains: text({ nobody: MACHINE }),
      spf_domains: text({ nobody: MACHINE }),
    },
  },
  /** The sources of a day in few rows, made of the figures; no row: to be made when somebody asks. */
  dmarc_days: {
    undigested: 'made of figures',
    columns: {
      user_key: integer(),
      domain_key: integer(),
      day: integer(),
      /** A hash of the named networks, and the addresses of this server and its relays, that it was made for. */
      names: text({ nobody: 'a hash' }),
      own: json({ nobody: 'addresses of this server' }),
      /** Rows as `days.ts` makes them. */
      sources: json({ nobody: 'addresses of machines' }),
    },
  },
  /** Rows of reports that the figures do not have yet. */
  report_pieces: {
    undigested: 'what others said, for a moment',
    columns: {
      key: key(),
      user_key: integer(),
      domain_key: integer(),
      kind: oneOf(['dmarc', 'tls']),
      day: integer(),
      reporter: text({ nobody: MACHINE }),
      /** Rows as `reading/fold.ts` makes them, or where they stand: {message, at} */
      rows: json({ nobody: 'addresses of machines, and domains' }),
      /** The share of each count that is evidence. */
      share: real(),
    },
  },
  /** What TLS reports say. */
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
