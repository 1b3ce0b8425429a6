// Contacts with their standing in another program's list (D71, D127): what "postrider contacts import" writes, over the
// API. The specification's import of contacts knows no standing.
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { audienceById } from '../campaigns/audiences.ts'
import { bringContacts } from '../campaigns/import-with-status.ts'
import { contactAddress } from '../campaigns/contacts.ts'
import { STANDINGS } from '../campaigns/standing.ts'
import { field, parentOf } from '../jsonapi/resource.ts'
import { audiences, contactItem, MAX_IMPORT } from '../campaigns/api-audiences.ts'
import { define } from '../jsonapi/define.ts'
import { count, EXTENSION } from '../jsonapi/fields.ts'

const item = contactItem.extend({
  email: contactItem.shape.email.refine((email) => contactAddress(email) !== undefined, 'is not an email address'),
  standing: z.enum(STANDINGS, { error: `must be one of ${STANDINGS.join(', ')}` }).optional(),
})

export const listImports = define('list-imports', {
  table: 'audiences',
  about: `The result of an import of a list with people who left it. ${EXTENSION}`,
  attributes: {
    contacts: field(
      z
        .array(item)
        .min(1, 'must hold at least one contact')
        .max(MAX_IMPORT, `must hold at most ${MAX_IMPORT} contacts`),
      {
        create: 'required',
        read: 'never',
        about: `1 to ${MAX_IMPORT} contacts, each with its standing (subscribed when absent): ${STANDINGS.join(', ')}.`,
        example: [{ email: 'ann@example.net', standing: 'unsubscribed' }],
      },
    ),
    created: count('How many were added as subscribed.'),
    updated: count('How many were there already and have a new name or field.'),
    unsubscribed: count('How many were added or kept as unsubscribed.'),
    suppressed: count('How many got a suppression: blocked, bounced or complained.'),
    skipped: count('How many changed nothing, or never confirmed that they want mail.'),
    errors: field(z.array(z.object({ index: z.int(), email: z.string(), detail: z.string() })), {
      about: 'What was wrong, by the place in the list from 0.',
    }),
  },
  actions: [
    {
      kind: 'create',
      path: '/audiences/:audience/list-imports',
      scope: 'contacts:write',
      within: { type: 'audiences', column: 'audience_key' },
      accepts: 'contacts',
      status: 200,
      bodyLimit: 25 * 1024 * 1024,
      refuses: ['insufficient_scope'],
      about: `Add many contacts as another program had them; nobody who left is subscribed. ${EXTENSION}`,
      run: async (call) => {
        const { attributes, caller, parts } = call
        const contacts = attributes.contacts.map(({ standing = 'subscribed', ...contact }) => ({
          ...contact,
          email: contactAddress(contact.email)!,
          standing,
        }))
        const suppresses = contacts.some(({ standing }) => standing !== 'subscribed' && standing !== 'unconfirmed')
        if (suppresses && !caller.scopes.has('suppressions:write'))
          throw refuse('insufficient_scope', 'People who left get a suppression, which needs suppressions:write.')
        const parent = parentOf(audiences, call)
        const audience = audienceById(parts.store, parent.id) ?? parent
        const { counts, problems } = await bringContacts(parts, audience, contacts)
        const errors = problems.map(({ index, reason }) => ({ index, email: contacts[index]!.email, detail: reason }))
        const skipped = counts.skipped + errors.length
        return { row: { key: 0, id: newId(call.now), ...counts, skipped, errors } }
      },
    },
  ],
})
