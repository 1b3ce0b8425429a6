// Whether a message is proven to come from the domain that its From names (D62): by a DKIM signature that passes, or by SPF that passes
// for the envelope sender, of the same organisation. This is not DMARC: a domain that publishes no policy can be proven too.
import type { AuthenticateResult } from 'mailauth'
import { organisationalDomain } from '../message/address.ts'

export function isProven({ dkim, dmarc, spf }: AuthenticateResult): boolean {
  // Without a From of exactly one domain there is nothing to be aligned with.
  const from = dmarc ? dmarc.status.header?.from : undefined
  if (from === undefined) return false
  const signed = dkim.results.some(
    // A signature over the first part of a body says nothing of what was appended, and one under test counts as none.
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
