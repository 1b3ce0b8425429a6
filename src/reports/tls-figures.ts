// The figures of TLS reports about a domain, by day, reporter and policy, and when failed connections are a problem.
// Sums are those of the summaries: the details of a report need not add up to them.
import type { Domain } from '../domains/find.ts'
import { organisationalDomain } from '../message/address.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { MOST_RESULTS } from './reading/fold.ts'
import type { TlsPolicyReport } from './reading/report.ts'
import { MOST_COUNT } from './reading/values.ts'

/** The most rows of a domain and day. */
const MOST_ROWS = 1000
/** The sessions of a day that suffice for a rate, and the rate of failures that is a problem. */
const LEAST_SESSIONS = 100
const TROUBLE = 0.01

export type TlsResults = Record<string, number>

/** A row counts at most as much as one policy of a report, so that every sum of rows is a safe integer. */
const sumOf = (one: number, other: number): number => Math.min(one + other, MOST_COUNT)

const readResults = (text: string): TlsResults => JSON.parse(text) as TlsResults

const ofDay = (domainKey: number, day: number) =>
  raw<RowOf<'tls_figures'>>('select * from tls_figures where domain_key = ? and day = ?', [domainKey, day])

/** The most characters of a domain name (RFC 1035 §2.3.4). */
const MAX_NAME = 253

/**
 * The policies of a TLS report that are about the domain's family, or about this host, which is the base domain of
 * TLSA. One without a domain is about the domain that the report was sent to.
 */
export function ownPolicies(
  policies: readonly TlsPolicyReport[],
  { name }: Pick<Domain, 'name'>,
  hostname: string,
): TlsPolicyReport[] {
  const organisation = organisationalDomain(name) ?? name
  const isOwn = ({ domain, type }: TlsPolicyReport): boolean =>
    domain === organisation || domain.endsWith(`.${organisation}`) || (type === 'tlsa' && domain === hostname)
  return policies
    .map((policy) => (policy.domain === '' ? { ...policy, domain: name } : policy))
    .filter((policy) => policy.domain.length <= MAX_NAME && isOwn(policy))
}

/** Adds the policies of one report. Policies beyond the rows of a day are counted without their domain. */
export function addTlsFigures(
  tx: Tx,
  { key: domain_key, user_key }: Pick<Domain, 'key' | 'user_key'>,
  { day, policies, reporter }: { day: number; policies: readonly TlsPolicyReport[]; reporter: string },
): void {
  let { present } = tx.one(
    raw<{ present: number }>('select count(*) as present from tls_figures where domain_key = ? and day = ?', [
      domain_key,
      day,
    ]),
  )
  for (const { domain, failure, results, success, type } of policies) {
    const of = (policy_domain: string) =>
      tx.first(
        db
          .selectFrom('tls_figures')
          .selectAll()
          .where('domain_key', '=', domain_key)
          .where('day', '=', day)
          .where('reporter', '=', reporter)
          .where('policy_type', '=', type)
          .where('policy_domain', '=', policy_domain),
      )
    const known = of(domain)
    const policy_domain = known || present < MOST_ROWS ? domain : ''
    const row = known ?? of(policy_domain)
    if (!row) present++
    const sums = new Map(Object.entries(readResults(row?.results ?? '{}')))
    for (const { sessions, type: result } of results)
      if (sums.has(result) || sums.size < MOST_RESULTS) sums.set(result, sumOf(sums.get(result) ?? 0, sessions))
    tx.run(
      db.replaceInto('tls_figures').values({
        user_key,
        domain_key,
        day,
        reporter,
        policy_type: type,
        policy_domain,
        success: sumOf(row?.success ?? 0, success),
        failure: sumOf(row?.failure ?? 0, failure),
        results: JSON.stringify(Object.fromEntries(sums)),
      }),
    )
  }
}

export interface TlsTrouble {
  day: number
  sessions: number
  failures: number
  /** By the types of RFC 8460. All others, which are untrusted text, are counted as one. */
  results: TlsResults
  /** An enforced policy failed, so that email was not delivered. */
  enforced: boolean
}

/** Returns the failures of a day if they are a problem, according to all reporters. */
export function tlsTroubleOf(
  reader: Reader,
  domain: Pick<Domain, 'key' | 'sts_mode'>,
  day: number,
): TlsTrouble | undefined {
  const results = new Map<string, number>()
  let [sessions, failures, enforced] = [0, 0, false]
  for (const row of reader.all(ofDay(domain.key, day))) {
    sessions += row.success + row.failure
    failures += row.failure
    if (row.failure === 0) continue
    enforced ||= row.policy_type === 'tlsa' || (row.policy_type === 'sts' && domain.sts_mode === 'enforce')
    for (const [result, count] of Object.entries(readResults(row.results))) {
      const name = FIXES.has(result) ? result : OTHER
      results.set(name, (results.get(name) ?? 0) + count)
    }
  }
  const many = sessions >= LEAST_SESSIONS && failures >= sessions * TROUBLE
  return failures > 0 && (enforced || many)
    ? { day, sessions, failures, results: Object.fromEntries(results), enforced }
    : undefined
}

/** The result types of RFC 8460 §4.3, with their meaning and fix. */
const FIXES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    'starttls-not-supported':
      'The server did not offer TLS. Check that port 25 reaches this server directly, without a filter in between.',
    'certificate-host-mismatch': 'The certificate does not cover the MX host. Check "hostname" and the certificate.',
    'certificate-expired': 'The certificate has expired. Check its renewal on the page Server.',
    'certificate-not-trusted': 'Senders do not trust the certificate. Use one from a public CA.',
    'validation-failure': 'The connection failed for another reason. Check the log of that time.',
    'tlsa-invalid': 'The TLSA record does not match the certificate. Publish the one in the DNS records of the domain.',
    'dnssec-invalid': 'The DNSSEC signatures of the zone are invalid. Contact your DNS provider.',
    'dane-required':
      'A sender requires DANE but found no TLSA record. Publish the one in the DNS records of the domain.',
    'sts-policy-fetch-error':
      'Senders could not fetch the MTA-STS policy. Check that the mta-sts host points to this server.',
    'sts-policy-invalid':
      'The MTA-STS policy that senders fetched is invalid. Check which server answers at the mta-sts host.',
    'sts-webpki-invalid': 'The certificate of the MTA-STS host is not valid. Check its renewal on the page Server.',
  }),
)
/** All results that RFC 8460 does not define. */
const OTHER = 'other'

export const fixOf = (result: string): string =>
  FIXES.get(result) ?? 'This result is not defined in RFC 8460. The report may contain details.'
