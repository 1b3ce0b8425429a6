// Brings the DNS records of a domain in line with its settings and the configuration, and has them checked soon.
import type { Clock } from '../base/clock.ts'
import type { Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import { domainByKey, listDomains } from './find.ts'
import { inLine, syncRecords, type RecordsConfig } from './records.ts'

/** Brings a domain's records in line with its present use, and has them checked at once. */
export function reissueRecords(
  tx: Tx,
  deps: { config: RecordsConfig; ring: () => void },
  domainKey: number,
  now: number,
): void {
  const domain = domainByKey(tx, domainKey)
  if (!domain) return
  syncRecords(tx, domain, deps.config, now)
  checkSoon(tx, deps, domainKey, now)
}

/** Brings the records of all domains in line with the configuration, after a change of hostname, addresses or URL.
 *  Returns the names of the domains whose records have changed. */
export async function followConfig(deps: {
  store: Store
  clock: Clock
  config: RecordsConfig
  ring: () => void
}): Promise<string[]> {
  const { clock, config, store } = deps
  const behind = listDomains(store).filter((domain) => !inLine(store, domain, config))
  if (behind.length > 0)
    await store.write((tx) => {
      for (const { key } of behind) reissueRecords(tx, deps, key, clock.now())
    })
  return behind.map(({ name }) => name)
}

/** Has a domain's records checked now. */
export function checkSoon(tx: Tx, deps: { ring: () => void }, domainKey: number, now: number): void {
  tx.run(db.updateTable('domains').set({ poll_from: now, next_check_at: now }).where('key', '=', domainKey))
  tx.afterCommit(deps.ring)
}
