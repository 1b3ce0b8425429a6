// What TLS reports say of mail to a domain, by day, reporter and policy (DV44), and the notice when connections fail.
// Sums are those of the summaries; the details are shown and never summed over them (DV43).
import { DAY } from '../base/clock.ts'
import type { Domain } from '../domains/find.ts'
import { organisationalDomain } from '../message/address.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import type { TlsPolicyReport } from './reading/report.ts'
import { MOST_COUNT } from './reading/values.ts'

/** The most rows of a domain and day, and the most types of results in a row. */
const MOST_ROWS = 1000
const MOST_RESULTS = 20
/** Enough sessions of a day to judge by, and the share of failures from which on there is trouble. */
const LEAST_SESSIONS = 100
const TROUBLE = 0.01

export type TlsResults = Record<string, number>

/** A row counts no more than one policy of a report may, so that a number can hold every sum of rows. */
const sumOf = (one: number, other: number): number => Math.min(one + other, MOST_COUNT)

const readResults = (text: string): TlsResults => JSON.parse(text) as TlsResults

const ofDay = (domainKey: number, day: number) =>
  raw<RowOf<'tls_figures'>>('select * from tls_figures where domain_key = ? and day = ?', [domainKey, day])

/**
 * The policies of a TLS report that are about the domain's family (D22), or about this host, which is the base domain
 * of TLSA. One without a domain is about the domain that it was sent to.
 */
export function ownPolicies<Each extends Pick<TlsPolicyReport, 'type' | 'domain'>>(
  policies: readonly Each[],
  { name }: Pick<Domain, 'name'>,
  hostname: string,
): Each[] {
  const organisation = organisationalDomain(name) ?? name
  return policies
    .map((policy) => (policy.domain === '' ? { ...policy, domain: name } : policy))
    .filter(
      ({ domain, type }) =>
        domain === organisation || domain.endsWith(`.${organisation}`) || (type === 'tlsa' && domain === hostname),
    )
}

/** Adds the policies of one report. Policies beyond the most rows of a day count under no domain of their own. */
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
  /** By the types of RFC 8460; all others, which are any words of a stranger, as one. */
  results: TlsResults
  /** A policy that senders must keep: mail did not come. */
  enforced: boolean
}

/** Whether so many connections of a day failed that somebody has to look; by what all reporters say. */
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

/** What the result types of RFC 8460 §4.3 mean, and what to do. */
const FIXES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    'starttls-not-supported':
      'A server did not offer TLS. Check that port 25 leads to this server and to no filter before it.',
    'certificate-host-mismatch':
      'The certificate does not name the host of the MX record. Check "hostname" and the certificate.',
    'certificate-expired': 'The certificate has expired. Look at its renewal on the page of the server.',
    'certificate-not-trusted': 'Senders do not trust the certificate. Use one of a public authority.',
    'validation-failure': 'The connection broke for another reason. Look at the log of that time.',
    'tlsa-invalid': 'The TLSA record does not fit the certificate. Publish the one among the records of the domain.',
    'dnssec-invalid': 'The signatures of the DNS zone are not valid. Ask who keeps your DNS.',
    'dane-required': 'A sender wants DANE and found no TLSA record. Publish the one among the records of the domain.',
    'sts-policy-fetch-error': 'Senders could not fetch the MTA-STS policy. Check that mta-sts. leads to this server.',
    'sts-policy-invalid': 'The MTA-STS policy that senders fetched is not valid. Check what answers at mta-sts.',
    'sts-webpki-invalid':
      'The certificate of the MTA-STS host is not valid. Look at its renewal on the page of the server.',
  }),
)
/** All results that RFC 8460 does not know. */
const OTHER = 'other'

export const fixOf = (result: string): string =>
  FIXES.get(result) ?? 'RFC 8460 does not know this result; the report itself may say more.'

export const dayOf = (seconds: number): number => Math.floor((seconds * 1000) / DAY)
