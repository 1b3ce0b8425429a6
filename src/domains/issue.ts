// Updates the DNS records of a domain after a change of its settings or of the configuration, and schedules a check.
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import type { Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import { domainByKey, listDomains } from './find.ts'
import { inLine, syncRecords, type RecordsConfig } from './records.ts'

/** Updates a domain's records to its present use, and schedules an immediate check. */
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

/**
 * Updates the records of all domains after a change of hostname, addresses or URL in the configuration. Returns the
 * names of the domains whose records have changed.
 */
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

/** Schedules an immediate check of the domains whose branded links lead to a host: it has a new certificate. */
export function checkLinksOf(deps: { store: Store; clock: Clock; log: Log; ring: () => void }, host: string): void {
  const { clock, log, store } = deps
  const written = store.write((tx) => {
    const of = db.selectFrom('records').select('domain_key').where('record_type', '=', 'TRACKING')
    for (const { domain_key } of tx.all(of.where('name', '=', host))) checkSoon(tx, deps, domain_key, clock.now())
  })
  written.catch((thrown: unknown) => log.fault('branded links of a new certificate', thrown))
}

/** Schedules an immediate check of a domain's records. */
export function checkSoon(tx: Tx, deps: { ring: () => void }, domainKey: number, now: number): void {
  tx.run(db.updateTable('domains').set({ poll_from: now, next_check_at: now }).where('key', '=', domainKey))
  tx.afterCommit(deps.ring)
}
