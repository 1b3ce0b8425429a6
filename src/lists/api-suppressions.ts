// Suppressions added over the API (D81), one or many rows. The specification's own /suppressions stays read and delete
// only.
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { field, type Call } from '../jsonapi/resource.ts'
import { parseAddress } from '../message/address.ts'
import { bringSuppression } from '../suppressions/import-with-status.ts'
import { domainById } from '../domains/find.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, words } from '../jsonapi/fields.ts'
import { address } from '../jsonapi/schemas.ts'

const MAX_ROWS = 10_000
const REASONS = ['manual', 'list_import', 'unsubscribe', 'hard_bounce', 'complaint'] as const
/** Rows in one transaction. */
const AT_ONCE = 200

const row = z.strictObject({
  email: address(),
  reason: z.enum(REASONS, { error: `must be one of ${REASONS.join(', ')}` }).optional(),
  scope: z.enum(['marketing', 'all'], { error: 'must be marketing or all' }).optional(),
})

/** The sending domain that the entries are for. Throws 404. */
function domainOf({ caller, parts, related }: Pick<Call<ApiDeps>, 'caller' | 'parts' | 'related'>): number | undefined {
  const id = related['domain']
  if (id === undefined) return undefined
  const found = domainById(parts.store, id)
  if (found?.user_key !== caller.userKey || found.deleted_at !== null)
    throw refuse('not_found', 'There is no such domain.', { pointer: '/data/relationships/domain' })
  return found.key
}

export const suppressionImports = define('suppression-imports', {
  table: 'suppressions',
  about: `Suppressions that are brought in. ${EXTENSION}`,
  attributes: {
    suppressions: field(z.array(row).min(1, 'must not be empty').max(MAX_ROWS, `must hold at most ${MAX_ROWS} rows`), {
      create: 'required',
      read: 'never',
      about: 'Addresses with a reason (manual when absent) and a scope (marketing for unsubscribe, else all).',
      example: [{ email: 'ann@example.net', reason: 'manual' }],
    }),
    created: count('How many entries are new.'),
    updated: count('How many entries were widened.'),
    skipped: count('How many were there already.'),
    domain_name: words('The sending domain that they are for.'),
  },
  relationships: { domain: { type: 'domains', column: 'domain_key', create: true } },
  actions: [
    {
      kind: 'create',
      path: '/suppression-imports',
      scope: 'suppressions:write',
      bodyLimit: 2 * 1024 * 1024,
      refuses: ['not_found'],
      about: `Add suppressions for a sending domain; an entry that is there is never weakened. ${EXTENSION}`,
      before: (call) => void domainOf(call),
      async run(call) {
        const { attributes, caller, now, parts } = call
        const domain = domainOf(call)
        if (domain === undefined)
          throw refuse('required', 'Name the sending domain in relationships.domain.', { pointer: '/data' })
        const counts = { created: 0, updated: 0, skipped: 0 }
        const rows = attributes.suppressions
        for (let at = 0; at < rows.length; at += AT_ONCE)
          await parts.store.write((tx) => {
            for (const { email, reason = 'manual', scope } of rows.slice(at, at + AT_ONCE)) {
              const given = {
                user_key: caller.userKey,
                domain_key: domain,
                address: parseAddress(email)!.address,
                reason,
                // What a person typed is not an import (D36).
                source: caller.person && reason !== 'list_import' ? ('manual' as const) : ('import' as const),
              }
              const wide = scope ?? (reason === 'unsubscribe' ? 'marketing' : 'all')
              counts[bringSuppression(tx, parts.keyring, { ...given, scope: wide }, now)]++
            }
          })
        const found = domainById(parts.store, call.related['domain']!)!
        return { row: { key: 0, id: newId(now), ...counts, domain_name: found.name, domain_key: domain } }
      },
    },
  ],
})
