// Who gets a submitted mail: the envelope says it, and the header only in which role (D75).
import type { SubmittedHeader } from '../message/submitted.ts'

export interface Roles {
  to: string
  cc: string[]
  bcc: string[]
}

/**
 * The first recipient of the envelope that stands in To is the primary one, else the first; those in Cc are seen, the rest are not. They
 * are written as the header writes them, where it does.
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
