// The security of an attempt, as one line for the store: cipher, policy, proof and DNSSEC status of the receiving
// server. The SMTP client writes it. Views of attempts read it.
import { isOneOf } from '../base/one-of.ts'

export const TLS_POLICIES = ['none', 'optional', 'required', 'sts', 'dane'] as const
/** The reason for TLS: no reason, opportunistic, the settings of the sending domain or the relay, MTA-STS, or DANE. */
export type TlsPolicy = (typeof TLS_POLICIES)[number]

export const TLS_PROOFS = ['none', 'pkix', 'dane-ee', 'dane-ta'] as const
/** The proof of the receiving server: no proof, a certificate of an authority, or TLSA records. */
export type TlsProof = (typeof TLS_PROOFS)[number]

export const DNS_STATES = ['secure', 'insecure', 'failed', 'not_queried'] as const
export type DnsState = (typeof DNS_STATES)[number]

/** The DNSSEC state of the answers that led to a receiving server. */
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

export const NOT_ASKED: Dnssec = { mx: 'not_queried', address: 'not_queried', tlsa: 'not_queried' }

export const writeSecurity = ({ cipher, dnssec, policy, proof }: Security): string =>
  [cipher ?? '-', policy ?? '-', proof, dnssec.mx, dnssec.address, dnssec.tlsa].join(' ')

/** The security of a connection in words: "over TLSv1.3, verified by DANE". */
export function protectionWords(protocol: string | null, proof: TlsProof | null): string {
  if (protocol === null || protocol === '') return 'without TLS'
  const proven: Record<TlsProof, string> = {
    none: ', certificate not verified',
    pkix: ', certificate verified',
    'dane-ee': ', verified by DANE',
    'dane-ta': ', verified by DANE',
  }
  return `over ${protocol}${proof === null ? '' : proven[proof]}`
}

/** Undefined for rows from before these lines. */
export function readSecurity(line: string | null): Security | undefined {
  if (line === null) return undefined
  const [cipher = '-', policy = '', proof = '', ...states] = line.split(' ')
  const state = (text = ''): DnsState => (isOneOf(DNS_STATES, text) ? text : 'not_queried')
  return {
    cipher: cipher === '-' ? null : cipher,
    policy: isOneOf(TLS_POLICIES, policy) ? policy : null,
    proof: isOneOf(TLS_PROOFS, proof) ? proof : 'none',
    dnssec: { mx: state(states[0]), address: state(states[1]), tlsa: state(states[2]) },
  }
}
