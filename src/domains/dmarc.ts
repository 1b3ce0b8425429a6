// The DMARC record of a sending domain (RFC 9989): where it stands, what DNS says there, and what it should say. A
// published record is kept but for its policy, and its policy is never made weaker.
import type { Resolver } from '../base/resolver.ts'
import { organisationalDomain } from '../message/address.ts'
import type { Domain } from './find.ts'

export type DmarcPolicy = Domain['dmarc_policy']

const LADDER: readonly DmarcPolicy[] = ['none', 'quarantine', 'reject']
const rank = (policy: DmarcPolicy): number => LADDER.indexOf(policy)

export const isWeaker = (policy: DmarcPolicy, than: DmarcPolicy): boolean => rank(policy) < rank(than)
const stronger = (a: DmarcPolicy, b: DmarcPolicy): DmarcPolicy => (isWeaker(a, b) ? b : a)

/** The policy after this one; null: there is none stricter. */
export const nextPolicy = (policy: DmarcPolicy): DmarcPolicy | null => LADDER[rank(policy) + 1] ?? null

/** The version comes first (RFC 9989 §4.7). */
export const isDmarc = (text: string): boolean => /^v\s*=\s*DMARC1\s*(?:;|$)/.test(text)

const PREFIX = '_dmarc.'
const organisationOf = (domain: string): string => organisationalDomain(domain) ?? domain

/**
 * The host of a domain's record: a subdomain with a policy of its own has a record of its own, else that of the
 * organisation counts.
 */
export const dmarcHost = (domain: string, policy: DmarcPolicy): string =>
  PREFIX + (policy === 'none' ? organisationOf(domain) : domain)

/** The value of a tag in lower case; undefined where the record does not have it. */
export const tagOf = (record: string, tag: string): string | undefined =>
  new RegExp(`;\\s*${tag}\\s*=\\s*([^;\\s]*)`, 'i').exec(record)?.[1]?.toLowerCase()

const asPolicy = (text: string | undefined): DmarcPolicy => LADDER.find((each) => each === text) ?? 'none'

/**
 * What a record asks for: of the domain itself, or of a subdomain that has none of its own. A record without a policy
 * asks for none.
 */
export const policyOf = (record: string, ofSubdomain = false): DmarcPolicy =>
  asPolicy((ofSubdomain ? tagOf(record, 'sp') : undefined) ?? tagOf(record, 'p'))

/** The record with another policy, all other tags as they are. */
export function withPolicy(record: string, policy: DmarcPolicy): string {
  const place = /(;\s*p\s*=\s*)[^;\s]*/i
  if (policyOf(record) === policy && place.test(record)) return record
  return place.test(record)
    ? record.replace(place, (_, before: string) => before + policy)
    : record.replace(/^([^;]*);?/, (_, version: string) => `${version.trimEnd()}; p=${policy};`)
}

/** The record without tags that count for an organisation alone. */
const ofSubdomain = (record: string): string => record.replace(/;\s*(?:sp|np|psd)\s*=[^;]*/gi, '')

/** What counts for a domain, as DNS says it. */
export interface Published {
  /** Where it stands. */
  host: string
  /** One record, or several, which receivers take for none. */
  records: string[]
  /** It stands above the domain. */
  inherited: boolean
}

/**
 * Looks at the host, then at those above it up to the organisation's (RFC 9989 §4.10). Null: there is no record;
 * undefined: DNS does not answer. `host` begins with "_dmarc.".
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

/** What counts as one text, for `observed` of a record: one that stands elsewhere begins with its host. */
export const observedDmarc = (found: Published | null): string | null =>
  found === null ? null : found.records.map((text) => (found.inherited ? `${found.host} ${text}` : text)).join('\n')

/**
 * What a record should say, for a policy and what `observedDmarc` told (null: nothing), and whether that does already.
 */
export function judgeDmarc(wanted: DmarcPolicy, observed: string | null): { value: string; fits: boolean } {
  const fresh = { value: `v=DMARC1; p=${wanted};`, fits: false }
  if (observed === null || observed.includes('\n')) return fresh
  const [, inherited] = /^_dmarc\.\S+ (.*)$/s.exec(observed) ?? []
  if (inherited === undefined) {
    const policy = policyOf(observed)
    return { value: withPolicy(observed, stronger(policy, wanted)), fits: !isWeaker(policy, wanted) }
  }
  // A record of its own has to repeat the addresses that reports go to.
  return {
    value: withPolicy(ofSubdomain(inherited), wanted),
    fits: !isWeaker(policyOf(inherited, true), wanted),
  }
}
