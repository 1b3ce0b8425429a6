// Suppressions over the API (D81, D127): entries in Postrider's format, or rows with the column titles of any system.
// The specification's /suppressions is read and delete only.
import { z } from 'zod'
import { newId } from '../base/ids.ts'
import { namesIn } from '../base/one-of.ts'
import { parseAddress } from '../message/address.ts'
import { importSuppressions, type Entry } from '../suppressions/import-with-status.ts'
import { define } from '../jsonapi/define.ts'
import { count, words } from '../jsonapi/fields.ts'
import { relatedIn } from '../jsonapi/related.ts'
import { field } from '../jsonapi/resource.ts'
import { address } from '../jsonapi/schemas.ts'
import { valuesOf } from '../store/schema/tables.ts'
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

const domain = relatedIn('domain', 'domains')

export const suppressionImports = define('suppression-imports', {
  table: 'suppressions',
  scope: 'suppressions',
  marketing: `scope = 'marketing'`,
  about: 'Suppressions imported from another system.',
  extension: true,
  attributes: {
    suppressions: field(
      z.array(row).min(1, 'must contain at least one row').max(MAX_ROWS, `must contain at most ${MAX_ROWS} rows`),
      {
        create: 'optional',
        read: 'never',
        about:
          'Addresses, each with a reason (`manual` if absent) and a scope (`marketing` for the reason `unsubscribe`, otherwise `all`, if absent).',
        example: [{ email: 'ann@example.net', reason: 'manual' }],
      },
    ),
    created: count('Number of suppressions that were created.'),
    updated: count('Number of existing suppressions whose scope was widened.'),
    skipped: count('Number of rows that were invalid or already covered by an existing suppression.'),
    ...listed('suppressions', SUPPRESSORS),
    domain_name: words('Sending domain that the suppressions apply to.'),
  },
  relationships: { domain: { type: 'domains', column: 'domain_key', create: true } },
  actions: [
    {
      kind: 'create',
      path: '/suppression-imports',
      bodyLimit: 2 * 1024 * 1024,
      refuses: ['not_found'],
      about:
        'Import suppressions for a sending domain. Existing suppressions are never weakened. Those of a marketer always have the scope `marketing`.',
      before: domain.before,
      async run(call) {
        const { attributes, caller, now, parts } = call
        const { key, name } = domain.of(call)
        const { errors, items, skipped } = await entriesOf(attributes, now)
        const entries = items.map(({ item: entry }): Entry =>
          caller.marketing ? { ...entry, scope: 'marketing' } : entry,
        )
        const counts = { created: 0, updated: 0, skipped: skipped + errors.length }
        const owner = { key, user_key: caller.userKey }
        // Addresses that a user typed are not an import (D36).
        const source = ({ reason }: Entry) => (caller.person && reason !== 'list_import' ? 'manual' : 'import')
        for (let at = 0; at < entries.length; at += AT_ONCE) {
          const brought = await importSuppressions(parts, owner, entries.slice(at, at + AT_ONCE), source)
          for (const each of namesIn(counts)) counts[each] += brought[each]
        }
        return { row: { key: 0, id: newId(now), ...counts, errors, domain_name: name, domain_key: key } }
      },
    },
  ],
})
