// The recipients of a mail: the primary recipient, then cc, then bcc. An address that was named before is dropped
// (specification "Outbound email"): a repeat within a list, a repeat of `to`, and in bcc a repeat of cc.
import { comparable } from '../../base/recipient-hash.ts'
import { knownAddress, type Address } from '../../message/address.ts'

export type Role = 'to' | 'cc' | 'bcc'

export interface Recipient {
  role: Role
  /** As the sender wrote it. */
  text: string
  address: Address
  /** Its place in the request, as a JSON pointer below /data/attributes. */
  pointer: string
}

/** One address or a list, as the API takes them. */
export type OneOrMore = string | readonly string[] | null | undefined

export interface Addressed {
  to: string
  cc?: OneOrMore
  bcc?: OneOrMore
}

/** The addresses of a field with their places in the request. */
export function listed(field: string, value: OneOrMore): { text: string; pointer: string }[] {
  if (value === null || value === undefined) return []
  return typeof value === 'string'
    ? [{ text: value, pointer: field }]
    : value.map((text, index) => ({ text, pointer: `${field}/${index}` }))
}

/**
 * Local parts are compared without case:
 * in practice no two mailboxes differ by case alone, and one would get two copies.
 */
export const sameMailbox = ({ address }: Pick<Address, 'address'>): string => comparable(address)

export function recipientsOf({ to, cc, bcc }: Addressed): Recipient[] {
  const seen = new Set<string>()
  const recipients: Recipient[] = []
  for (const [role, value] of [
    ['to', to],
    ['cc', cc],
    ['bcc', bcc],
  ] as const)
    for (const { text, pointer } of listed(role, value)) {
      const address = knownAddress(text)
      if (seen.has(sameMailbox(address))) continue
      seen.add(sameMailbox(address))
      recipients.push({ role, text, address, pointer })
    }
  return recipients
}
