// The recipients of a submitted mail come from the envelope; the header only says which role each one has (D75).
import type { SubmittedHeader } from '../message/submitted.ts'

export interface Roles {
  to: string
  cc: string[]
  bcc: string[]
}

/**
 * The primary recipient is the first one of the envelope that is in To, else the first of all. Recipients in Cc are
 * visible, all others are not. Addresses are written as in the header if they are there.
 */
export function rolesOf(recipients: readonly string[], { cc, to }: Pick<SubmittedHeader, 'to' | 'cc'>): Roles {
  const key = (address: string): string => address.toLowerCase()
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
