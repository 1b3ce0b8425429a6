// The TLS settings of every listener, and the authorities that clients trust. Listeners have TLS 1.2 with ECDHE and
// AEAD, and TLS 1.3, in our order of preference, without renegotiation. NCSC-NL (TLS guidelines 2025-05) and RFC 9325
// §4.2 call these suites good or sufficient.
import { constants } from 'node:crypto'
import { rootCertificates, type SecureContextOptions } from 'node:tls'
import { readNamed } from './plain-file.ts'

export const TLS_POLICY = {
  minVersion: 'TLSv1.2',
  ciphers: [
    'TLS_AES_256_GCM_SHA384',
    'TLS_CHACHA20_POLY1305_SHA256',
    'TLS_AES_128_GCM_SHA256',
    'ECDHE-ECDSA-AES256-GCM-SHA384',
    'ECDHE-ECDSA-CHACHA20-POLY1305',
    'ECDHE-ECDSA-AES128-GCM-SHA256',
    'ECDHE-RSA-AES256-GCM-SHA384',
    'ECDHE-RSA-CHACHA20-POLY1305',
    'ECDHE-RSA-AES128-GCM-SHA256',
  ].join(':'),
  honorCipherOrder: true,
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_COMPRESSION,
  // RFC 7627: OpenSSL always offers the Extended Master Secret.
} as const satisfies SecureContextOptions

/**
 * The certificate authorities (PEM) in a file that the operator names, or undefined for ''. Throws the system's error.
 */
export const readAuthorities = (file: string): string | undefined =>
  file === '' ? undefined : readNamed(file).toString()

/** The options of a client that trusts these authorities (PEM) in addition to the well-known ones. */
export const trusting = (further: string | undefined): { ca?: string[] } =>
  further ? { ca: [...rootCertificates, further] } : {}
