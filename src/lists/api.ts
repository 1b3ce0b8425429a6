// Suppressions over the API (D81, D127): entries that are understood already, or rows with the titles of any program.
// The specification's /suppressions is read and delete only.
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { namesIn } from '../base/one-of.ts'
import { domainById } from '../domains/find.ts'
import { parseAddress } from '../message/address.ts'
import { importSuppressions, type Entry } from '../suppressions/import-with-status.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, words } from '../jsonapi/fields.ts'
import { field, type Call } from '../jsonapi/resource.ts'
import { address } from '../jsonapi/schemas.ts'
import { valuesOf } from '../schema/tables.ts'
import { checkOneOf, givenIn, listed, understood, type GivenRows } from './given-rows.ts'
import { SUPPRESSORS } from './programs.ts'
import { scopeOf, suppressionsIn } from './suppression-columns.ts'

const MAX_ROWS = 10_000
const REASONS = ['manual', 'list_import', 'unsubscribe', 'hard_bounce', 'complaint'] as const
/** Rows in one transaction. */
const AT_ONCE = 200

const row = z.strictObject({
  email: address(),
  reason: z.enum(REASONS, { error: `must be one of ${REASONS.join(', ')}` }).optional(),
  scope: z.enum(valuesOf('suppressions', 'scope'), { error: 'must be marketing or all' }).optional(),
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

type SuppressionAttributes = Partial<Record<'file', string>> & {
  suppressions?: z.output<typeof row>[]
  rows?: Record<string, unknown>[]
  from?: keyof typeof SUPPRESSORS
}

function entriesOf(attributes: SuppressionAttributes, now: number): GivenRows<Entry> | Promise<GivenRows<Entry>> {
  checkOneOf('suppressions', attributes)
  const { file = '', from, rows, suppressions = [] } = attributes
  if (rows) return givenIn(rows, file, suppressionsIn({ from, page: true }, now))
  return understood(
    suppressions.map(({ email, reason = 'manual', scope }) => ({
      email: parseAddress(email)!.address,
      reason,
      scope: scope ?? scopeOf(reason),
      expires_at: null,
    })),
  )
}

export const suppressionImports = define('suppression-imports', {
  table: 'suppressions',
  about: `Suppressions that are brought in. ${EXTENSION}`,
  attributes: {
    suppressions: field(z.array(row).min(1, 'must not be empty').max(MAX_ROWS, `must hold at most ${MAX_ROWS} rows`), {
      create: 'optional',
      read: 'never',
      about: 'Addresses with a reason (manual when absent) and a scope (marketing for unsubscribe, else all).',
      example: [{ email: 'ann@example.net', reason: 'manual' }],
    }),
    created: count('How many entries are new.'),
    updated: count('How many entries were widened.'),
    skipped: count('How many were there already.'),
    ...listed('suppressions', SUPPRESSORS),
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
        const { errors, items, skipped } = await entriesOf(attributes, now)
        const entries = items.map(({ item: entry }) => entry)
        const counts = { created: 0, updated: 0, skipped: skipped + errors.length }
        const owner = { key: domain, user_key: caller.userKey }
        // What a person typed is not an import (D36).
        const source = ({ reason }: Entry) => (caller.person && reason !== 'list_import' ? 'manual' : 'import')
        for (let at = 0; at < entries.length; at += AT_ONCE) {
          const brought = await importSuppressions(parts, owner, entries.slice(at, at + AT_ONCE), source)
          for (const name of namesIn(counts)) counts[name] += brought[name]
        }
        const found = domainById(parts.store, call.related['domain']!)!
        return { row: { key: 0, id: newId(now), ...counts, errors, domain_name: found.name, domain_key: domain } }
      },
    },
  ],
})
