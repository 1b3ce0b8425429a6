// Judges the certificates of an exchanger by its TLSA records (RFC 7671, 7672 §3). By DANE-EE the records say which key
// or certificate is right, and nothing else counts: no date, name or authority. By DANE-TA a record names an authority:
// its certificate must be shown (or stand in the record), and sign down to a leaf with the right name.
import { createHash, createPublicKey, X509Certificate, type KeyObject } from 'node:crypto'
import type { TLSSocket } from 'node:tls'
import { readAllDer, readDer, type DerElement } from '../base/der.ts'
import type { Tlsa } from '../net/resolver.ts'
import type { TlsProof } from './security.ts'
import type { DaneProof } from './tlsa.ts'

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

/** The proof that the certificates give (leaf first); a sentence when they give none. */
export function judgeByDane(
  { base, names, records }: DaneProof,
  shown: readonly X509Certificate[],
  now: number,
): Extract<TlsProof, `dane-${string}`> | { failure: string } {
  const [leaf] = shown
  if (!leaf) return { failure: 'the server shows no certificate' }
  if (records.some((record) => record.usage === 3 && isMatch(record, leaf))) return 'dane-ee'
  const authorities = records.filter(({ usage }) => usage === 2)
  const none = { failure: `no TLSA record of ${base} matches the certificate` }
  if (authorities.length === 0) return none
  if (!leadsToAuthority(leaf, shown.slice(1), authorities, now)) return none
  if (!isCurrent(leaf, now)) return { failure: `the certificate is not valid now (until ${leaf.validTo})` }
  if (!names.some((name) => isNamed(leaf, name))) return { failure: `the certificate is not for ${names.join(' or ')}` }
  return 'dane-ta'
}

/** Whether a record matches a certificate or its key. */
export function isMatch({ data, matching, selector }: Tlsa, certificate: X509Certificate): boolean {
  const octets = selector === 0 ? certificate.raw : keyOctets(certificate.raw)
  if (!octets) return false
  if (matching === 0) return octets.toString('hex') === data
  return (
    createHash(matching === 1 ? 'sha256' : 'sha512')
      .update(octets)
      .digest('hex') === data
  )
}

function isCurrent({ validFrom, validTo }: X509Certificate, now: number): boolean {
  return Date.parse(validFrom) <= now && now <= Date.parse(validTo)
}

/** A name of the certificate; wildcards stand in the first label alone, for exactly one (RFC 7672 §3.2.3). */
const isNamed = (leaf: X509Certificate, name: string): boolean =>
  leaf.checkHost(name, { wildcards: true, partialWildcards: false, multiLabelWildcards: false }) !== undefined

/** Whether certificates that were shown, or stand in the records, lead from the leaf to an authority of the records. */
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
    // A kind of key that this program does not know.
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

/** SubjectPublicKeyInfo as it stands in the certificate: an encoding of one's own may differ from it. */
function keyOctets(raw: Buffer): Buffer | undefined {
  // serialNumber, signature, issuer, validity, subject, subjectPublicKeyInfo
  const key = fieldsOf(raw)[5]
  return key && raw.subarray(key.start, key.end)
}

const BASIC_CONSTRAINTS = Buffer.from([0x06, 0x03, 0x55, 0x1d, 0x13])

/** The authorities that may stand below this one (RFC 5280 §4.2.1.9); Infinity where nothing is said. */
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
