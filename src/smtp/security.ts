// How an attempt was protected, as one line for the store: cipher, policy, proof, and what DNS said of the exchanger
// (DNSSEC). It is written by whoever connects and read by what shows attempts.
import { isOneOf } from '../base/one-of.ts'

export const TLS_POLICIES = ['none', 'optional', 'required', 'sts', 'dane'] as const
/** What asked for TLS: nothing, a wish, the sending domain or the relay's settings, MTA-STS, or DANE. */
export type TlsPolicy = (typeof TLS_POLICIES)[number]

export const TLS_PROOFS = ['none', 'pkix', 'dane-ee', 'dane-ta'] as const
/** What proved the exchanger: nothing, a certificate of an authority, or TLSA records. */
export type TlsProof = (typeof TLS_PROOFS)[number]

export const DNS_STATES = ['secure', 'insecure', 'failed', 'not_asked'] as const
export type DnsState = (typeof DNS_STATES)[number]

/** The DNSSEC state of the answers that led to an exchanger. */
export interface Dnssec {
  mx: DnsState
  address: DnsState
  tlsa: DnsState
}

export interface Security {
  cipher: string | null
  policy: TlsPolicy | null
  proof: TlsProof
  dnssec: Dnssec
}

export const NOT_ASKED: Dnssec = { mx: 'not_asked', address: 'not_asked', tlsa: 'not_asked' }

export const writeSecurity = ({ cipher, dnssec, policy, proof }: Security): string =>
  [cipher ?? '-', policy ?? '-', proof, dnssec.mx, dnssec.address, dnssec.tlsa].join(' ')

/** What protected a connection, in words: "over TLSv1.3, proven by DANE". */
export function protectionWords(protocol: string | null, proof: TlsProof | null): string {
  if (protocol === null || protocol === '') return 'without TLS'
  const proven: Record<TlsProof, string> = {
    none: ', the server not proven',
    pkix: ', proven by a certificate of an authority',
    'dane-ee': ', proven by DANE',
    'dane-ta': ', proven by DANE',
  }
  return `over ${protocol}${proof === null ? '' : proven[proof]}`
}

/** Undefined for rows from before these lines. */
export function readSecurity(line: string | null): Security | undefined {
  if (line === null) return undefined
  const [cipher = '-', policy = '', proof = '', ...states] = line.split(' ')
  const state = (text = ''): DnsState => (isOneOf(DNS_STATES, text) ? text : 'not_asked')
  return {
    cipher: cipher === '-' ? null : cipher,
    policy: isOneOf(TLS_POLICIES, policy) ? policy : null,
    proof: isOneOf(TLS_PROOFS, proof) ? proof : 'none',
    dnssec: { mx: state(states[0]), address: state(states[1]), tlsa: state(states[2]) },
  }
}
