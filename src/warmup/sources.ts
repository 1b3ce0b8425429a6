// The sending IP addresses of this server. A new one starts at the first step. If an upgrade installs warm-up, the
// addresses of a server that has sent in the last weeks are established: no limit applies until a receiver objects.
import { DAY } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { sourcesOf } from '../base/sources.ts'
import type { Reader, Store } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { dayOf } from './pairs.ts'

/** The name of the address that the system chooses if the configuration has none. */
export const SYSTEM_SOURCE = 'default'

/** The sending IP addresses by the names that pairs have. */
export function sourceNames(config: Pick<Config, 'delivery' | 'hostname'>, sources = sourcesOf(config)): string[] {
  return sources.length === 0 ? [SYSTEM_SOURCE] : sources.map(({ address }) => address)
}

/** Days that an upgrade looks back, and the days with email from which an address is established: a weekly campaign. */
const LOOKED_BACK = 28
const ESTABLISHED = 4
/** How long the pairs of an address that was removed from the configuration are kept. */
const KEPT = 60 * DAY

/** Stores the sources of the configuration. Called at every start, and after a reload. */
export async function storeSources({
  clock,
  config,
  store,
}: {
  store: Store
  config: Pick<Config, 'delivery' | 'hostname'>
  clock: { now(): number }
}): Promise<void> {
  const now = clock.now()
  const first = store.first(db.selectFrom('warmup_sources').select('source').limit(1)) === undefined
  const established = first && daysWithMail(store, now) >= ESTABLISHED ? 1 : 0
  await store.write((tx) => {
    for (const source of sourceNames(config))
      tx.run(
        raw(
          `insert into warmup_sources (source, established, seen_at) values (?, ?, ?)
           on conflict (source) do update set seen_at = excluded.seen_at`,
          [source, established, now],
        ),
      )
    tx.run(
      raw('delete from warmups where source in (select source from warmup_sources where seen_at < ?)', [now - KEPT]),
    )
    tx.run(db.deleteFrom('warmup_sources').where('seen_at', '<', now - KEPT))
  })
}

const daysWithMail = (reader: Reader, now: number): number =>
  reader.one(
    raw<{ days: number }>(
      'select count(distinct hour / 24) as days from receiver_tallies where hour >= ? and delivered + refused > 0',
      [(dayOf(now) - LOOKED_BACK) * 24],
    ),
  ).days
