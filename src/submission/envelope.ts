// The recipients of a submitted mail come from the envelope; the header only gives the role of each recipient (D75).
import { comparable } from '../base/recipient-hash.ts'
import type { SubmittedHeader } from '../message/submitted.ts'

export interface Roles {
  to: string
  cc: string[]
  bcc: string[]
}

/**
 * The primary recipient is the first recipient of the envelope that is in To, else the first of all. Recipients in Cc
 * are visible, all others are hidden (bcc). An address in the header is written as the header writes it.
 */
export function rolesOf(recipients: readonly string[], { cc, to }: Pick<SubmittedHeader, 'to' | 'cc'>): Roles {
  const key = comparable
  const primary = recipients.find((address) => to.has(key(address))) ?? recipients[0]!
  const rest = recipients.filter((address) => key(address) !== key(primary))
  const [seen, unseen] = [
    rest.filter((address) => cc.has(key(address))),
    rest.filter((address) => !cc.has(key(address))),
  ]
  return {
    to: to.get(key(primary)) ?? primary,
    cc: seen.map((address) => cc.get(key(address))!),
    bcc: unseen,
  }
}
