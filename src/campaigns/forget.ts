// Forgets an address among contacts, and where contacts, audiences and campaigns name it.
import type { Tx } from '../store/database.ts'
import { redacting, type Erasing } from '../store/erasing.ts'
import { raw } from '../store/query.ts'

/** Removes the contacts of the address, in every audience. */
export function forgetContacts(tx: Tx, { address, userKey }: Erasing): void {
  tx.run(raw('delete from contacts where user_key = ? and email = ?', [userKey, address]))
}

export const forgetInContacts = redacting('contacts', ['name', 'preferences', 'custom_fields'])
export const forgetInAudiences = redacting('audiences', ['name', 'description'])
export const forgetInCampaigns = redacting('campaigns', [
  'name',
  'subject',
  'body_html',
  'body_text',
  'from_address',
  'reply_to',
  'test_recipient_email',
  'failure',
])
