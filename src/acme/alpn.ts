// Proof of a name in the TLS handshake (TLS-ALPN-01, RFC 8737): a client that offers "acme-tls/1" alone gets a
// self-signed certificate with a digest of the key authorization.
import { createHash } from 'node:crypto'
import { makeCertificate, type Certificate } from '../base/certificate.ts'
import { octets, oid, sequence, yes } from '../base/der.ts'

/** The protocol name that a certificate authority offers (RFC 8737 §6.2). */
export const ACME_TLS = 'acme-tls/1'

/** id-pe-acmeIdentifier, 1.3.6.1.5.5.7.1.31 (RFC 8737 §6.1). */
const ACME_IDENTIFIER = oid(0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x1f)

/** The certificate of a proof: it contains only the name and the critical digest (RFC 8737 §3). `now` in ms. */
export function proofCertificate(name: string, keyAuthorization: string, now: number): Certificate {
  const digest = createHash('sha256').update(keyAuthorization).digest()
  return makeCertificate(name, now, [sequence(ACME_IDENTIFIER, yes, octets(octets(digest)))])
}
