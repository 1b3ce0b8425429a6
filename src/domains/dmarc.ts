// The DMARC record of a sending domain (RFC 9989): its name in DNS, its present value and its wanted value. A published
// record keeps all tags except the policy, and its policy is never made weaker.
import type { Resolver } from '../net/resolver.ts'
import { organisationalDomain } from '../message/address.ts'
import type { Domain } from './find.ts'
import { withReportsTo } from './report-addresses.ts'

export type DmarcPolicy = Domain['dmarc_policy']

const LADDER: readonly DmarcPolicy[] = ['none', 'quarantine', 'reject']
const rank = (policy: DmarcPolicy): number => LADDER.indexOf(policy)

export const isWeaker = (policy: DmarcPolicy, than: DmarcPolicy): boolean => rank(policy) < rank(than)
const stronger = (a: DmarcPolicy, b: DmarcPolicy): DmarcPolicy => (isWeaker(a, b) ? b : a)

/** The next stricter policy; null: there is none. */
export const nextPolicy = (policy: DmarcPolicy): DmarcPolicy | null => LADDER[rank(policy) + 1] ?? null

/** The version tag must be the first (RFC 9989 §4.7). */
export const isDmarc = (text: string): boolean => /^v\s*=\s*DMARC1\s*(?:;|$)/.test(text)

const PREFIX = '_dmarc.'
const organisationOf = (domain: string): string => organisationalDomain(domain) ?? domain

/**
 * The DNS name of a domain's record. A domain with its own policy has its own record; otherwise the record of the
 * organisational domain applies.
 */
export const dmarcHost = (domain: string, policy: DmarcPolicy): string =>
  PREFIX + (policy === 'none' ? organisationOf(domain) : domain)

/** The value of a tag in lower case; undefined when the record has no such tag. */
export const tagOf = (record: string, tag: string): string | undefined =>
  new RegExp(`;\\s*${tag}\\s*=\\s*([^;\\s]*)`, 'i').exec(record)?.[1]?.toLowerCase()

const asPolicy = (text: string | undefined): DmarcPolicy => LADDER.find((each) => each === text) ?? 'none'

/**
 * The policy of a record, for the domain itself or for a subdomain without its own record. Without a policy tag it is
 * none.
 */
export const policyOf = (record: string, ofSubdomain = false): DmarcPolicy =>
  asPolicy((ofSubdomain ? tagOf(record, 'sp') : undefined) ?? tagOf(record, 'p'))

/** The record with another policy; all other tags stay as they are. */
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
  /** The DNS name of the records. */
  host: string
  /** One record, or several; receivers treat several as none. */
  records: string[]
  /** The record belongs to a parent domain. */
  inherited: boolean
}

/**
 * Looks up the name, then the names above it up to the organisational domain (RFC 9989 §4.10). Null: there is no
 * record; undefined: DNS does not answer. `host` begins with "_dmarc.".
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

/** The records as one text, for a record's `observed`. A record of a parent domain begins with its DNS name. */
export const observedDmarc = (found: Published | null): string | null =>
  found === null ? null : found.records.map((text) => (found.inherited ? `${found.host} ${text}` : text)).join('\n')

/** The record of a parent domain in the text of `observedDmarc`. */
const inheritedIn = (observed: string): string | undefined => /^_dmarc\.\S+ (.*)$/s.exec(observed)?.[1]

/**
 * The value that a record should have, for a policy and the text of `observedDmarc` (null: no record); and whether the
 * published record has the policy already. `reports`: our address for reports; a record's own addresses stay.
 */
export function judgeDmarc(
  wanted: DmarcPolicy,
  observed: string | null,
  reports?: string,
): { value: string; fits: boolean } {
  const reported = (record: string): string => (reports === undefined ? record : withReportsTo(record, reports))
  const fresh = { value: reported(`v=DMARC1; p=${wanted};`), fits: false }
  if (observed === null || observed.includes('\n')) return fresh
  const inherited = inheritedIn(observed)
  if (inherited === undefined) {
    const policy = policyOf(observed)
    return { value: reported(withPolicy(observed, stronger(policy, wanted))), fits: !isWeaker(policy, wanted) }
  }
  // An own record replaces the inherited one, so it must repeat the addresses for reports.
  return {
    value: reported(withPolicy(ofSubdomain(inherited), wanted)),
    fits: !isWeaker(policyOf(inherited, true), wanted),
  }
}

/** The policy in the text of `observedDmarc` for the domain itself; null: there is none, or no single one. */
export function observedPolicy(observed: string | null): DmarcPolicy | null {
  if (observed === null || observed.includes('\n')) return null
  const inherited = inheritedIn(observed)
  return inherited === undefined ? policyOf(observed) : policyOf(inherited, true)
}
