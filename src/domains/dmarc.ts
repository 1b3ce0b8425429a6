// The DMARC record of a sending domain (RFC 9989): its name in DNS, its present value and its wanted value. A published
// record keeps all tags except the policy, and its policy is never made weaker.
import type { Resolver } from '../net/resolver.ts'
import { organisationalDomain } from '../message/address.ts'
import type { Domain } from './find.ts'

export type DmarcPolicy = Domain['dmarc_policy']

const LADDER: readonly DmarcPolicy[] = ['none', 'quarantine', 'reject']
const rank = (policy: DmarcPolicy): number => LADDER.indexOf(policy)

export const isWeaker = (policy: DmarcPolicy, than: DmarcPolicy): boolean => rank(policy) < rank(than)
export const stronger = (a: DmarcPolicy, b: DmarcPolicy): DmarcPolicy => (isWeaker(a, b) ? b : a)

/** The next stricter policy, or null for the strictest. */
export const nextPolicy = (policy: DmarcPolicy): DmarcPolicy | null => LADDER[rank(policy) + 1] ?? null

/** The version tag must be the first (RFC 9989 §4.7). */
export const isDmarc = (text: string): boolean => /^v\s*=\s*DMARC1\s*(?:;|$)/.test(text)

const PREFIX = '_dmarc.'
const organisationOf = (domain: string): string => organisationalDomain(domain) ?? domain

/**
 * The DNS name of a domain's record. A domain with its own policy has its own record. Otherwise the record of the
 * organisational domain applies.
 */
export const dmarcHost = (domain: string, policy: DmarcPolicy): string =>
  PREFIX + (policy === 'none' ? organisationOf(domain) : domain)

/** The value of a tag in lower case, or undefined if the record has no such tag. */
export const tagOf = (record: string, tag: string): string | undefined =>
  new RegExp(`;\\s*${tag}\\s*=\\s*([^;\\s]*)`, 'i').exec(record)?.[1]?.toLowerCase()

const asPolicy = (text: string | undefined): DmarcPolicy => LADDER.find((each) => each === text) ?? 'none'

/**
 * The policy of a record, for the domain itself or for a subdomain without its own record. Defaults to `none` without a
 * policy tag.
 */
export const policyOf = (record: string, ofSubdomain = false): DmarcPolicy =>
  asPolicy((ofSubdomain ? tagOf(record, 'sp') : undefined) ?? tagOf(record, 'p'))

/** The record with another policy. All other tags are unchanged. */
export function withPolicy(record: string, policy: DmarcPolicy): string {
  const place = /(;\s*p\s*=\s*)[^;\s]*/i
  if (policyOf(record) === policy && place.test(record)) return record
  return place.test(record)
    ? record.replace(place, (_, before: string) => before + policy)
    : record.replace(/^([^;]*);?/, (_, version: string) => `${version.trimEnd()}; p=${policy};`)
}

/** The record without the tags that apply only to an organisational domain. */
const ofSubdomain = (record: string): string => record.replace(/;\s*(?:sp|np|psd)\s*=[^;]*/gi, '')

/** The DMARC records in DNS that apply to a domain. */
export interface Published {
  host: string
  /** Usually one record. Receivers ignore multiple records. */
  records: string[]
  /** The record belongs to a parent domain. */
  inherited: boolean
}

/**
 * Looks up the name, then its parents up to the organisational domain (RFC 9989 §4.10). Returns null if there is no
 * record, and undefined if DNS does not respond. `host` starts with "_dmarc.".
 */
export async function publishedDmarc(
  resolver: Pick<Resolver, 'txt'>,
  host: string,
): Promise<Published | null | undefined> {
  const domain = host.slice(PREFIX.length)
  const top = organisationOf(domain)
  for (let at = domain; ; at = at.slice(at.indexOf('.') + 1)) {
    const answer = await resolver.txt(PREFIX + at)
    if (answer.kind === 'failed') return undefined
    const records = answer.kind === 'found' ? answer.records.filter(isDmarc) : []
    if (records.length > 0) return { host: PREFIX + at, records, inherited: at !== domain }
    if (at === top || !at.includes('.')) return null
  }
}

/** The records as one text, for a record's `observed`. A record of a parent domain starts with its DNS name. */
export const observedDmarc = (found: Published | null): string | null =>
  found === null ? null : found.records.map((text) => (found.inherited ? `${found.host} ${text}` : text)).join('\n')

/** The record of a parent domain in the text of `observedDmarc`. */
const inheritedIn = (observed: string): string | undefined => /^_dmarc\.\S+ (.*)$/s.exec(observed)?.[1]

/** One record for several: the first one, with the strictest policy and the report addresses of all. */
const mergedDmarc = (records: readonly string[]): string =>
  records.reduce((merged, record) =>
    [...(/;\s*rua\s*=([^;]*)/i.exec(record)?.[1] ?? '').matchAll(/mailto:([^\s,]+)/gi)].reduce(
      (all, [, address = '']) => withReportsTo(all, address),
      withPolicy(merged, stronger(policyOf(merged), policyOf(record))),
    ),
  )

/**
 * Returns the value that a record should have, for a policy and the text of `observedDmarc` (null if there is no
 * record), and whether the published record already has the policy. `reports` are this server's addresses for reports.
 * The record's own addresses are kept, and several records are merged.
 */
export function judgeDmarc(
  wanted: DmarcPolicy,
  observed: string | null,
  reports: readonly string[] = [],
): { value: string; fits: boolean } {
  const reported = (record: string): string => reports.reduce(withReportsTo, record)
  if (observed === null) return { value: reported(`v=DMARC1; p=${wanted};`), fits: false }
  const lines = observed.split('\n')
  const record = mergedDmarc(lines.map((line) => inheritedIn(line) ?? line))
  const inherited = inheritedIn(observed) !== undefined
  const fits = lines.length === 1 && !isWeaker(policyOf(record, inherited), wanted)
  // An own record replaces the inherited one, so it must repeat the addresses for reports.
  const value = inherited
    ? withPolicy(ofSubdomain(record), wanted)
    : withPolicy(record, stronger(policyOf(record), wanted))
  return { value: reported(value), fits }
}

/** The policy in the text of `observedDmarc` for the domain itself, or null if there is no single record. */
export function observedPolicy(observed: string | null): DmarcPolicy | null {
  if (observed === null || observed.includes('\n')) return null
  const inherited = inheritedIn(observed)
  return inherited === undefined ? policyOf(observed) : policyOf(inherited, true)
}

// The addresses for reports about a domain's mail. Their host is that of the return path, because this server always
// receives its mail, even if another server receives mail for the domain (D46). It is in the same organisational
// domain, so that the reports need no additional record (RFC 9990 §4).

const LOCAL_PARTS = { dmarc: 'dmarc-reports', tls: 'tls-reports' } as const
type ReportsAbout = keyof typeof LOCAL_PARTS

export const reportsTo = (about: ReportsAbout, domain: Pick<Domain, 'mail_from_prefix' | 'name'>): string =>
  `${LOCAL_PARTS[about]}@${domain.mail_from_prefix}.${domain.name}`

/** The subject of reports to a local part in lower case, or undefined if it is not for reports. */
export const reportsAbout = (local: string): ReportsAbout | undefined =>
  local === LOCAL_PARTS.dmarc ? 'dmarc' : local === LOCAL_PARTS.tls ? 'tls' : undefined

/** A record with an additional address for reports (`rua`). Its own addresses are kept. */
export function withReportsTo(record: string, address: string): string {
  const uri = `mailto:${address}`
  const [tag, before = '', named = ''] = /(;\s*rua\s*=\s*)([^;]*)/i.exec(record) ?? []
  if (tag === undefined) return `${record.trimEnd().replace(/;?$/, ';')} rua=${uri};`
  const known = named.split(',').map((each) =>
    each
      .trim()
      .toLowerCase()
      .replace(/!\d+[kmgt]?$/, ''),
  )
  if (known.includes(uri.toLowerCase())) return record
  const list = named.trim() === '' ? uri : `${named.trimEnd()},${uri}`
  return record.replace(tag, () => `${before}${list}`)
}
