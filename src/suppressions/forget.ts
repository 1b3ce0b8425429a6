// Erases an address from the suppressions: they keep a hash, so that the address stays blocked.
import type { Tx } from '../store/database.ts'
import type { Erasing } from '../store/erasing.ts'
import { raw } from '../store/query.ts'
import { suppress } from './suppressions.ts'

export function forgetInSuppressions(tx: Tx, { address, at, hash, userKey }: Erasing): void {
  tx.run(
    raw('update or replace suppressions set email = ?, updated_at = ? where user_key = ? and email = ?', [
      hash,
      at,
      userKey,
      address,
    ]),
  )
  blockErased(tx, userKey, hash, at)
  tx.run(
    raw('delete from soft_bounces where email = ? and domain_key in (select key from domains where user_key = ?)', [
      address,
      userKey,
    ]),
  )
}

/**
 * Adds an entry with the hash of the erased address to each domain, so that an old list cannot bring the address back
 * (D56).
 */
export function blockErased(tx: Tx, userKey: number, hash: string, at: number): void {
  const domains = tx.all(
    raw<{ key: number }>(
      `select d.key from domains d where d.user_key = ? and d.deleted_at is null and not exists (
         select 1 from suppressions s where s.domain_key = d.key and s.email = ? and s.scope = 'all' and s.expires_at is null)`,
      [userKey, hash],
    ),
  )
  for (const { key } of domains)
    suppress(
      tx,
      { user_key: userKey, domain_key: key, address: hash, reason: 'manual', source: 'manual', scope: 'all' },
      at,
    )
}
