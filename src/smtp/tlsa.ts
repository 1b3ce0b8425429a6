// Which TLSA records of an exchanger count (RFC 6698, 7671, 7672), and how the exchanger is found to have any: the
// question at the names in their order, and what the answers ask for.
import { createPublicKey, X509Certificate } from 'node:crypto'
import type { Tlsa, ValidatedAnswer, ValidatingResolver } from '../net/resolver.ts'
import type { Dnssec, DnsState } from './security.ts'

/** What proves an exchanger. */
export interface DaneProof {
  /** The name at which the records stand: the TLSA base domain, which is also asked for in TLS (SNI). */
  base: string
  /** Names of which the certificate must have one, where an authority's record counts. */
  names: string[]
  /** At least one. */
  records: Tlsa[]
}

export type DanePlan =
  /** No DANE: TLS is as without it. */
  | { kind: 'none' }
  /** There are records, and none of them can be used: TLS, whatever the certificate. */
  | { kind: 'encrypt' }
  | { kind: 'prove'; proof: DaneProof }
  /** The question failed: an attacker may have seen to that, and nothing is sent. */
  | { kind: 'failed'; reason: string; local?: true }

/** The most records that are looked at; more are a failure. */
const MAX_RECORDS = 100

const DIGEST_LETTERS: Record<number, number> = { 1: 64, 2: 128 }

/** Whether this program can judge by a record (RFC 7672 §3.1). */
function isUsable({ data, matching, selector, usage }: Tlsa): boolean {
  if ((usage !== 2 && usage !== 3) || (selector !== 0 && selector !== 1)) return false
  if (matching !== 0) return DIGEST_LETTERS[matching] === data.length
  try {
    const octets = Buffer.from(data, 'hex')
    if (selector === 0) void new X509Certificate(octets)
    else createPublicKey({ key: octets, format: 'der', type: 'spki' })
    return true
  } catch {
    return false
  }
}

/** The records that count: the usable ones, and of their digests the strongest for each usage and selector. */
export function countingRecords(records: readonly Tlsa[]): Tlsa[] {
  const usable = records.filter(isUsable)
  const strongest = (one: Tlsa): boolean =>
    !usable.some(
      ({ matching, selector, usage }) =>
        usage === one.usage && selector === one.selector && matching > one.matching && one.matching > 0,
    )
  return usable.filter(strongest)
}

export interface DaneQuestion {
  /** The exchanger. */
  host: string
  port: number
  /** The recipient domain, a name of the certificate where the MX records are secure; undefined for a relay. */
  domain: string | undefined
  mx: DnsState
  /** The answers for its addresses. */
  addresses: readonly ValidatedAnswer<string>[]
}

export interface DaneAnswer {
  plan: DanePlan
  dnssec: Dnssec
}

/** What DANE asks for at an exchanger (RFC 7672 §2.2). Addresses come first: TLSA is not asked in unsigned zones. */
export async function planDane(asking: ValidatingResolver, question: DaneQuestion): Promise<DaneAnswer> {
  const { addresses, host, mx } = question
  const answer = (plan: DanePlan, address: DnsState, tlsa: DnsState): DaneAnswer => ({
    plan,
    dnssec: { mx, address, tlsa },
  })
  const found = addresses.filter((each) => each.kind === 'found')
  const end = found[0]?.end
  if (end === undefined) return answer({ kind: 'none' }, 'failed', 'not_asked')
  if (found.every(({ secure }) => secure)) {
    const [plan, tlsa] = await askAt(asking, question, [...new Set([end, host])])
    return answer(plan, 'secure', tlsa)
  }
  if (end === host) return answer({ kind: 'none' }, 'insecure', 'not_asked')
  // A signed alias may lead into an unsigned zone (RFC 7672 §2.2.2).
  const alias = await asking.cname(host)
  if (alias.kind === 'failed') return answer(failedBy(alias), 'insecure', 'failed')
  if (!alias.secure) return answer({ kind: 'none' }, 'insecure', 'not_asked')
  const [plan, tlsa] = await askAt(asking, question, [host])
  return answer(plan, 'insecure', tlsa)
}

const failedBy = ({ local, reason }: Extract<ValidatedAnswer<never>, { kind: 'failed' }>): DanePlan => ({
  kind: 'failed',
  reason,
  ...(local ? { local } : {}),
})

async function askAt(
  asking: ValidatingResolver,
  { domain, mx, port }: DaneQuestion,
  bases: readonly string[],
): Promise<[DanePlan, DnsState]> {
  let state: DnsState = 'not_asked'
  for (const base of bases) {
    const answer = await asking.tlsa(`_${port}._tcp.${base}`)
    if (answer.kind === 'failed') return [failedBy(answer), 'failed']
    state = answer.secure ? 'secure' : 'insecure'
    if (answer.kind !== 'found' || !answer.secure) continue
    if (answer.records.length > MAX_RECORDS)
      return [{ kind: 'failed', reason: `more than ${MAX_RECORDS} records` }, 'failed']
    const records = countingRecords(answer.records)
    if (records.length === 0) return [{ kind: 'encrypt' }, state]
    const named = records.some(({ usage }) => usage === 2)
    const names = named ? [...new Set([base, ...(mx === 'secure' && domain !== undefined ? [domain] : [])])] : []
    return [{ kind: 'prove', proof: { base, names, records } }, state]
  }
  return [{ kind: 'none' }, state]
}

/** A name that differs for plans that differ: a connection is used again only under the plan that it was opened by. */
export function nameOfPlan(plan: DanePlan): string {
  if (plan.kind !== 'prove') return plan.kind === 'none' ? '' : plan.kind
  const { base, names, records } = plan.proof
  const lines = records.map(({ data, matching, selector, usage }) => `${usage} ${selector} ${matching} ${data}`)
  return [base, names.join(' '), ...lines.sort()].join('\n')
}
