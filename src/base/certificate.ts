// Makes a self-signed TLS certificate (X.509 v3, RFC 5280) for listeners without a configured one: it encrypts, but
// proves no identity. Node makes keys but no certificates, so the few structures needed are written in DER here.
import { generateKeyPairSync, randomBytes, randomInt, sign, type KeyObject } from 'node:crypto'
import { DAY } from './clock.ts'
import { bits, der, ECDSA_SHA256, octets, oid, pem, sequence, SUBJECT_ALT_NAME, yes } from './der.ts'

export interface Certificate {
  /** PEM. */
  cert: string
  /** PKCS #8 PEM. */
  key: string
}

/** A private key as PKCS #8 in PEM, not encrypted. */
export const pemOf = (privateKey: KeyObject): string => privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()

const LIFETIME = 3650 * DAY

// GeneralizedTime: YYYYMMDDHHMMSSZ.
const time = (at: number): Buffer =>
  der(0x18, Buffer.from(`${new Date(at).toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`))

const COMMON_NAME = oid(0x55, 0x04, 0x03)
const BASIC_CONSTRAINTS = oid(0x55, 0x1d, 0x13)

/**
 * An ECDSA P-256 certificate for a host name, valid for ten years from a day before `now` (ms). `more`: further
 * extensions (RFC 5280 §4.2, DER).
 */
export function makeCertificate(hostname: string, now: number, more: readonly Uint8Array[] = []): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  // X.520 limits a common name to 64 characters. The alternative name holds the full name.
  const name = sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from(hostname.slice(0, 64))))))
  // A positive number whose first byte is not 0.
  const serial = Buffer.concat([Buffer.from([0x40 | randomInt(0x40)]), randomBytes(15)])
  const extensions = sequence(
    sequence(BASIC_CONSTRAINTS, yes, octets(sequence(yes))),
    sequence(SUBJECT_ALT_NAME, octets(sequence(der(0x82, Buffer.from(hostname))))),
    ...more,
  )
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, serial),
    ECDSA_SHA256,
    name,
    sequence(time(now - DAY), time(now + LIFETIME)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  )
  const whole = sequence(body, ECDSA_SHA256, bits(sign('sha256', body, privateKey)))
  return {
    cert: pem('CERTIFICATE', whole),
    key: pemOf(privateKey),
  }
}
