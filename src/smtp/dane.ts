// Verifies the certificates of an MX host by its TLSA records (RFC 7671, 7672 §3). With DANE-EE, only the key or
// certificate in the record matters: dates, names and authorities are ignored. With DANE-TA, a record names an
// authority. Its certificate must be in the handshake or in the record, and must have signed a chain down to a leaf
// with the right name.
import { createHash, createPublicKey, X509Certificate, type KeyObject } from 'node:crypto'
import type { TLSSocket } from 'node:tls'
import { readAllDer, readDer, type DerElement } from '../base/der.ts'
import type { Tlsa, ValidatedAnswer, ValidatingResolver } from '../net/resolver.ts'
import type { TlsProof, Dnssec, DnsState } from './security.ts'

/** Certificates of a handshake that are looked at, and steps from the leaf to the authority. */
const MAX_SHOWN = 20
const MAX_STEPS = 10

const SERVER_AUTH = ['1.3.6.1.5.5.7.3.1', '2.5.29.37.0']

/** The certificates of a handshake as the server sent them, in its order. */
export function certificatesOf(secure: Pick<TLSSocket, 'getPeerX509Certificate'>): X509Certificate[] {
  const shown: X509Certificate[] = []
  for (let next = secure.getPeerX509Certificate(); next && shown.length < MAX_SHOWN; next = next.issuerCertificate)
    shown.push(next)
  return shown
}

/** Returns the proof by these certificates (leaf first), or a sentence with the reason if they prove nothing. */
export function judgeByDane(
  { base, names, records }: DaneProof,
  shown: readonly X509Certificate[],
  now: number,
): Extract<TlsProof, `dane-${string}`> | { failure: string } {
  const [leaf] = shown
  if (!leaf) return { failure: 'the server sent no certificate' }
  if (records.some((record) => record.usage === 3 && isMatch(record, leaf))) return 'dane-ee'
  const authorities = records.filter(({ usage }) => usage === 2)
  const none = { failure: `no TLSA record of ${base} matches the certificate` }
  if (authorities.length === 0) return none
  if (!leadsToAuthority(leaf, shown.slice(1), authorities, now)) return none
  if (!isCurrent(leaf, now))
    return { failure: `the certificate is expired or not yet valid (valid until ${leaf.validTo})` }
  if (!names.some((name) => isNamed(leaf, name))) return { failure: `the certificate is not for ${names.join(' or ')}` }
  return 'dane-ta'
}

/** Whether a record matches a certificate or its key. */
export function isMatch({ data, matching, selector }: Tlsa, certificate: X509Certificate): boolean {
  const bytes = selector === 0 ? certificate.raw : keyBytes(certificate.raw)
  if (!bytes) return false
  if (matching === 0) return bytes.toString('hex') === data
  return (
    createHash(matching === 1 ? 'sha256' : 'sha512')
      .update(bytes)
      .digest('hex') === data
  )
}

function isCurrent({ validFrom, validTo }: X509Certificate, now: number): boolean {
  return Date.parse(validFrom) <= now && now <= Date.parse(validTo)
}

/**
 * Whether a certificate has a name. A wildcard is allowed only as the first label, for exactly one label (RFC 7672
 * §3.2.3).
 */
const isNamed = (leaf: X509Certificate, name: string): boolean =>
  leaf.checkHost(name, { wildcards: true, partialWildcards: false, multiLabelWildcards: false }) !== undefined

/** Whether certificates from the handshake or the records lead from the leaf to an authority of the records. */
function leadsToAuthority(
  leaf: X509Certificate,
  shown: readonly X509Certificate[],
  records: readonly Tlsa[],
  now: number,
): boolean {
  const whole = records.filter(({ matching }) => matching === 0)
  const given = whole.flatMap(({ data, selector }) =>
    selector === 0 ? [new X509Certificate(Buffer.from(data, 'hex'))] : [],
  )
  const keys = whole.flatMap(({ data, selector }) =>
    selector === 1 ? [createPublicKey({ key: Buffer.from(data, 'hex'), format: 'der', type: 'spki' })] : [],
  )
  const { keyUsage: purposes } = leaf as { keyUsage?: string[] }
  if (purposes && !purposes.some((purpose) => SERVER_AUTH.includes(purpose))) return false
  const all = [...shown, ...given]
  const tried = new Set<X509Certificate>()
  const climb = (from: X509Certificate, steps: number): boolean => {
    if (keys.some((key) => isSigned(from, key))) return true
    if (steps >= MAX_STEPS) return false
    return all.some((issuer) => {
      if (tried.has(issuer) || !maySign(issuer, steps, now)) return false
      if (!from.checkIssued(issuer) || !isSigned(from, issuer)) return false
      tried.add(issuer)
      return given.includes(issuer) || records.some((record) => isMatch(record, issuer)) || climb(issuer, steps + 1)
    })
  }
  return climb(leaf, 0)
}

/** Whether a certificate may sign others, with `below` authorities between it and the leaf. */
const maySign = (issuer: X509Certificate, below: number, now: number): boolean =>
  issuer.ca && isCurrent(issuer, now) && below <= pathLength(issuer.raw)

function isSigned(certificate: X509Certificate, by: X509Certificate | KeyObject): boolean {
  try {
    return certificate.verify(by instanceof X509Certificate ? by.publicKey : by)
  } catch {
    // A kind of key that Postrider does not know.
    return false
  }
}

/** The fields of TBSCertificate (RFC 5280 §4.1), from the serial number on. */
function fieldsOf(raw: Uint8Array): DerElement[] {
  const certificate = readDer(raw, 0)
  const body = certificate && readDer(raw, certificate.body, certificate.end)
  const fields = body ? readAllDer(raw, body) : []
  return fields[0]?.tag === 0xa0 ? fields.slice(1) : fields
}

/** SubjectPublicKeyInfo with its bytes from the certificate: a new encoding could differ. */
function keyBytes(raw: Buffer): Buffer | undefined {
  // serialNumber, signature, issuer, validity, subject, subjectPublicKeyInfo
  const key = fieldsOf(raw)[5]
  return key && raw.subarray(key.start, key.end)
}

const BASIC_CONSTRAINTS = Buffer.from([0x06, 0x03, 0x55, 0x1d, 0x13])

/** The number of authorities allowed below this one (RFC 5280 §4.2.1.9), or Infinity without a constraint. */
function pathLength(raw: Buffer): number {
  const wrapped = fieldsOf(raw).find(({ tag }) => tag === 0xa3)
  const list = wrapped && readDer(raw, wrapped.body, wrapped.end)
  for (const extension of list ? readAllDer(raw, list) : []) {
    if (!raw.subarray(extension.body, extension.body + 5).equals(BASIC_CONSTRAINTS)) continue
    const value = readAllDer(raw, extension).find(({ tag }) => tag === 0x04)
    const constraints = value && readDer(raw, value.body, value.end)
    const length = constraints && readAllDer(raw, constraints).find(({ tag }) => tag === 0x02)
    return length ? Number(`0x${raw.subarray(length.body, length.end).toString('hex')}`) : Infinity
  }
  return Infinity
}

// Decides which TLSA records of an MX host are used (RFC 6698, 7671, 7672). It queries the names in their order, and
// derives the requirements for TLS from the answers.

/** The means to authenticate an MX host. */
export interface DaneProof {
  /** The name of the records: the TLSA base domain, which is also the server name in TLS (SNI). */
  base: string
  /** Names of which the certificate must have one, for records of an authority (DANE-TA). */
  names: string[]
  /** At least one. */
  records: Tlsa[]
}

export type DanePlan =
  /** No DANE: TLS is as without it. */
  | { kind: 'none' }
  /** There are records, but all of them are unusable: TLS is required, with any certificate. */
  | { kind: 'encrypt' }
  | { kind: 'prove'; proof: DaneProof }
  /** The lookup failed, perhaps because of an attacker. The message is not sent. */
  | { kind: 'failed'; reason: string; local?: true }

/** The most records that are evaluated. More count as a failed lookup. */
const MAX_RECORDS = 100

const DIGEST_LETTERS: Record<number, number> = { 1: 64, 2: 128 }

/** Whether a record is usable (RFC 7672 §3.1). */
function isUsable({ data, matching, selector, usage }: Tlsa): boolean {
  if ((usage !== 2 && usage !== 3) || (selector !== 0 && selector !== 1)) return false
  if (matching !== 0) return DIGEST_LETTERS[matching] === data.length
  try {
    const bytes = Buffer.from(data, 'hex')
    if (selector === 0) void new X509Certificate(bytes)
    else createPublicKey({ key: bytes, format: 'der', type: 'spki' })
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
  host: string
  port: number
  /** The recipient domain, a name of the certificate where the MX records are secure, or undefined for a relay. */
  domain: string | undefined
  mx: DnsState
  /** The answers for its addresses. */
  addresses: readonly ValidatedAnswer<string>[]
}

export interface DaneAnswer {
  plan: DanePlan
  dnssec: Dnssec
}

/**
 * Returns the requirements of DANE for an MX host (RFC 7672 §2.2). Addresses are looked up first: in unsigned zones,
 * there is no TLSA query.
 */
export async function planDane(asking: ValidatingResolver, question: DaneQuestion): Promise<DaneAnswer> {
  const { addresses, host, mx } = question
  const answer = (plan: DanePlan, address: DnsState, tlsa: DnsState): DaneAnswer => ({
    plan,
    dnssec: { mx, address, tlsa },
  })
  const found = addresses.filter((each) => each.kind === 'found')
  const end = found[0]?.end
  if (end === undefined) return answer({ kind: 'none' }, 'failed', 'not_queried')
  if (found.every(({ secure }) => secure)) {
    const [plan, tlsa] = await askAt(asking, question, [...new Set([end, host])])
    return answer(plan, 'secure', tlsa)
  }
  if (end === host) return answer({ kind: 'none' }, 'insecure', 'not_queried')
  // A signed alias may lead into an unsigned zone (RFC 7672 §2.2.2).
  const alias = await asking.cname(host)
  if (alias.kind === 'failed') return answer(failedBy(alias), 'insecure', 'failed')
  if (!alias.secure) return answer({ kind: 'none' }, 'insecure', 'not_queried')
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
  let state: DnsState = 'not_queried'
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
