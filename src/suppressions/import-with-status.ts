// Imports suppressions of another application. An existing entry is never removed or weakened.
import type { Clock } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Store, Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import { keptForm, suppress, type NewSuppression } from './suppressions.ts'

const entryOf = statement<{ domain_key: number; email: string; reason: NewSuppression['reason'] }>()((arg) =>
  db
    .selectFrom('suppressions')
    .select(['scope', 'expires_at', 'strikes'])
    .where('domain_key', '=', arg.domain_key)
    .where('email', '=', arg.email)
    .where('reason', '=', arg.reason),
)

type ImportOutcome = 'created' | 'updated' | 'skipped'

export interface Entry {
  email: string
  reason: NewSuppression['reason']
  scope: NewSuppression['scope']
  expires_at: number | null
}

/** Adds an entry, or widens the entry with the same reason: to all mail, to a later expiry or to none. */
export function importSuppression(
  tx: Tx,
  keyring: Keyring,
  given: Omit<NewSuppression, 'source' | 'strikes'> & { source?: 'manual' | 'import' },
  now: number,
): ImportOutcome {
  const { domain_key, reason, scope } = given
  const expires = given.expires_at ?? null
  const email = keptForm(tx, keyring, domain_key, given.address)
  // A manual entry for all mail without an expiry blocks already.
  const byHand = reason === 'list_import' ? tx.first(entryOf({ domain_key, email, reason: 'manual' })) : undefined
  if (byHand?.scope === 'all' && byHand.expires_at === null) return 'skipped'
  const there = tx.first(entryOf({ domain_key, email, reason }))
  const widened = {
    ...given,
    address: email,
    source: given.source ?? 'import',
    scope: there?.scope === 'all' ? there.scope : scope,
    expires_at: there && later(there.expires_at, expires) ? there.expires_at : expires,
    strikes: there?.strikes ?? 0,
  }
  if (there?.scope === widened.scope && there.expires_at === widened.expires_at) return 'skipped'
  suppress(tx, widened, now)
  return there ? 'updated' : 'created'
}

/** The later of two expiry times applies. Null means permanent, and is later than any time. */
const later = (one: number | null, other: number | null): boolean => one === null || (other !== null && one >= other)

/** Imports entries in one transaction. Counts the results. */
export const importSuppressions = (
  { clock, keyring, store }: { clock: Clock; keyring: Keyring; store: Store },
  { key, user_key }: { key: number; user_key: number },
  lot: readonly Entry[],
  source: (entry: Entry) => 'manual' | 'import' = () => 'import',
): Promise<Record<ImportOutcome, number>> =>
  store.write((tx) => {
    const counts = { created: 0, updated: 0, skipped: 0 }
    for (const entry of lot) {
      const { email: address, ...rest } = entry
      const given = { ...rest, user_key, domain_key: key, address, source: source(entry) }
      counts[importSuppression(tx, keyring, given, clock.now())]++
    }
    return counts
  })
