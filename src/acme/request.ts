// A certificate request (PKCS #10, RFC 2986) for one host name and the certificate's key.
import { createPublicKey, sign, type KeyObject } from 'node:crypto'
import { bits, der, ECDSA_SHA256, octets, oid, sequence, SUBJECT_ALT_NAME } from '../base/der.ts'

/** pkcs-9-at-extensionRequest (RFC 2985 §5.4.2). */
const EXTENSION_REQUEST = oid(0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e)

/** Returns the request as DER. `key` is a P-256 private key. */
export function certificateRequest(name: string, key: KeyObject): Buffer {
  const extensions = sequence(sequence(SUBJECT_ALT_NAME, octets(sequence(der(0x82, Buffer.from(name))))))
  const attributes = der(0xa0, sequence(EXTENSION_REQUEST, der(0x31, extensions)))
  const body = sequence(
    der(0x02, Buffer.from([0])),
    // The subject is empty, because the alternative name is enough.
    sequence(),
    createPublicKey(key).export({ type: 'spki', format: 'der' }),
    attributes,
  )
  return sequence(body, ECDSA_SHA256, bits(sign('sha256', body, key)))
}
