// Imports contacts through the API (D42). Valid contacts are added. Contacts that are in the audience already or occur
// twice are skipped; invalid contacts are skipped and listed. A lot is one transaction, so that none is half imported.
import { contactAddress, insert, type ContactDeps, type NewContact } from './contacts.ts'
import type { Audience } from './audiences.ts'

export interface ImportProblem {
  /** Index in the list, from 0. */
  index: number
  email: string | null
  detail: string
}

export interface Imported {
  created: number
  skipped: number
  errors: ImportProblem[]
}

/** One item as it was sent, or the reason why it is invalid. */
export type ImportItem = { contact: NewContact } | { problem: string; email: string | null }

/** The most errors that an answer lists. */
const MAX_ERRORS = 1000

export function importContacts(
  { clock, keyring, store }: ContactDeps,
  audience: Audience,
  items: readonly ImportItem[],
): Promise<Imported> {
  return store.write((tx) => {
    const now = clock.now()
    const result: Imported = { created: 0, skipped: 0, errors: [] }
    for (const [index, item] of items.entries()) {
      const email = 'contact' in item ? contactAddress(item.contact.email) : undefined
      if ('contact' in item && email !== undefined) {
        if (insert(tx, keyring, audience, { ...item.contact, email }, now)) result.created++
        else result.skipped++
        continue
      }
      result.skipped++
      const told = 'contact' in item ? item.contact.email : item.email
      const detail = 'contact' in item ? 'is not an email address' : item.problem
      if (result.errors.length < MAX_ERRORS) result.errors.push({ index, email: told, detail })
    }
    return result
  })
}
