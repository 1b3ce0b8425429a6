// Certificates for tests: of an authority or self-signed, of any name, for any time.
import { createHash, generateKeyPairSync, randomBytes, sign, X509Certificate, type KeyObject } from 'node:crypto'
import { pemOf, type Certificate } from '../../src/base/certificate.ts'
import { bits, der, ECDSA_SHA256, octets, oid, pem, sequence, SUBJECT_ALT_NAME, yes } from '../../src/base/der.ts'

export interface Issued extends Certificate {
  subject: string
  privateKey: KeyObject
  x509: X509Certificate
}

export interface Wanted {
  /** The common name. Unique, because an issuer is found by it. */
  subject: string
  names?: readonly string[]
  /** The authority. Itself when left out. */
  by?: Issued
  /** It may sign others. A number limits how many authorities may be below it. */
  ca?: boolean | number
  from?: number
  until?: number
}

const DAY = 86_400_000
const time = (at: number): Buffer =>
  der(0x18, Buffer.from(`${new Date(at).toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`))
const nameOf = (text: string): Buffer =>
  sequence(der(0x31, sequence(oid(0x55, 0x04, 0x03), der(0x0c, Buffer.from(text)))))

export function issue({ by, ca = false, from, names = [], subject, until }: Wanted): Issued {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const constraints = [
    ...(ca === false ? [] : [yes]),
    ...(typeof ca === 'number' ? [der(0x02, Buffer.from([ca]))] : []),
  ]
  const extensions = sequence(
    sequence(oid(0x55, 0x1d, 0x13), yes, octets(sequence(...constraints))),
    ...(names.length === 0
      ? []
      : [sequence(SUBJECT_ALT_NAME, octets(sequence(...names.map((each) => der(0x82, Buffer.from(each))))))]),
  )
  const now = Date.now()
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([0x40]), randomBytes(15)])),
    ECDSA_SHA256,
    nameOf(by?.subject ?? subject),
    sequence(time(from ?? now - DAY), time(until ?? now + 30 * DAY)),
    nameOf(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  )
  const cert = pem(
    'CERTIFICATE',
    sequence(body, ECDSA_SHA256, bits(sign('sha256', body, by?.privateKey ?? privateKey))),
  )
  return { cert, key: pemOf(privateKey), subject, privateKey, x509: new X509Certificate(cert) }
}

/** A certificate with those above it, as a server shows them. */
export const chain = (leaf: Issued, ...above: Issued[]): Certificate => ({
  cert: [leaf, ...above].map(({ cert }) => cert).join(''),
  key: leaf.key,
})

/** The data of a TLSA record for a certificate: "3 1 1 00ff…". */
export function tlsaOf(usage: number, selector: number, matching: number, { x509 }: Pick<Issued, 'x509'>): string {
  const whole = selector === 0 ? x509.raw : x509.publicKey.export({ type: 'spki', format: 'der' })
  const data =
    matching === 0
      ? whole
      : createHash(matching === 1 ? 'sha256' : 'sha512')
          .update(whole)
          .digest()
  return `${usage} ${selector} ${matching} ${data.toString('hex')}`
}
