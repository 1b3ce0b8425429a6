// The DNS records of a domain, brought in line with what it is used for and with the configuration, and looked at soon after.
import type { Clock } from '../base/clock.ts'
import type { Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import { domainByKey, listDomains } from './find.ts'
import { inLine, syncRecords, type RecordsConfig } from './records.ts'

/** Brings a domain's records in line with what it is used for now, and looks at them at once. */
export function reissueRecords(
  tx: Tx,
  desk: { config: RecordsConfig; ring: () => void },
  domainKey: number,
  now: number,
): void {
  const domain = domainByKey(tx, domainKey)
  if (!domain) return
  syncRecords(tx, domain, desk.config, now)
  checkSoon(tx, desk, domainKey, now)
}

/** Brings the records of all domains in line with the configuration: after its hostname, its addresses or its URL have changed. Returns the
 *  names of the domains whose records are others now. */
export async function followConfig(desk: {
  store: Store
  clock: Clock
  config: RecordsConfig
  ring: () => void
}): Promise<string[]> {
  const { clock, config, store } = desk
  const behind = listDomains(store).filter((domain) => !inLine(store, domain, config))
  if (behind.length > 0)
    await store.write((tx) => {
      for (const { key } of behind) reissueRecords(tx, desk, key, clock.now())
    })
  return behind.map(({ name }) => name)
}

/** Has DNS asked for a domain's records now. */
export function checkSoon(tx: Tx, desk: { ring: () => void }, domainKey: number, now: number): void {
  tx.run(db.updateTable('domains').set({ poll_from: now, next_check_at: now }).where('key', '=', domainKey))
  tx.afterCommit(desk.ring)
}
