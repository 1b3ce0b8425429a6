// Whether a message surely comes from the domain of its From field (D62): by a valid DKIM signature, or by SPF for the
// envelope sender, of the same organisation. Unlike DMARC, this needs no published policy.
import type { AuthenticateResult } from 'mailauth'
import { organisationalDomain } from '../message/address.ts'

export function isProven({ dkim, dmarc, spf }: AuthenticateResult): boolean {
  // Without a From field of exactly one domain there is nothing to compare with.
  const from = dmarc ? dmarc.status.header?.from : undefined
  if (from === undefined) return false
  const signed = dkim.results.some(
    // A signature over only a part of the body does not cover appended text; a signature in test mode does not count.
    ({ status }) => status.result === 'pass' && status.aligned && !status.underSized && !status.testing,
  )
  return (
    signed || (spf !== false && spf.status.result === 'pass' && organisationOf(spf.domain) === organisationOf(from))
  )
}

const organisationOf = (domain: string): string => {
  const name = domain.toLowerCase().replace(/\.$/, '')
  return organisationalDomain(name) ?? name
}
