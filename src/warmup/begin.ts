// What is known of sources at a start (DV14, DV16): a new address begins at the first step; at the upgrade that brings
// warm-up, pairs begin where their mail of the last weeks has brought them, so that no established sender is slowed.
import { DAY } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { sourcesOf } from '../base/sources.ts'
import { domainOf } from '../message/lane-names.ts'
import { shapingRules } from '../smtp/shaping-file.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { ladderOf, roomForBulk, stepAbove, TOTAL } from './ladder.ts'
import { receiverOf } from '../reputation/receivers.ts'
import { addPair, dayOf, findPair } from './pairs.ts'

/** The source that stands for the address which the system chooses, where the configuration names none. */
export const SYSTEM_SOURCE = 'default'

/** The addresses that mail leaves from, as pairs name them. */
export function sourceNames(config: Pick<Config, 'delivery' | 'hostname'>): string[] {
  const sources = sourcesOf(config)
  return sources.length === 0 ? [SYSTEM_SOURCE] : sources.map(({ address }) => address)
}

/** Days that an upgrade looks back, and the days with mail that make a source established. */
const LOOKED_BACK = 28
const ESTABLISHED = 14
/** How long the pairs of an address that left the configuration are kept. */
const KEPT = 60 * DAY

/** Notes the sources of the configuration. Called at every start, and after the configuration was read again. */
export async function beginSources(
  { clock, config, store }: { store: Store; config: Pick<Config, 'delivery' | 'hostname'>; clock: { now(): number } },
  names: readonly string[] = sourceNames(config),
): Promise<void> {
  const now = clock.now()
  const first = store.first(db.selectFrom('warmup_sources').select('source').limit(1)) === undefined
  const history = first ? historyOf(store, now) : undefined
  await store.write((tx) => {
    for (const source of names) {
      const known = tx.run(db.updateTable('warmup_sources').set({ seen_at: now }).where('source', '=', source)).changes
      if (known > 0) continue
      const established = history !== undefined && history.daysWithMail >= ESTABLISHED
      const values = { source, established: established ? 1 : 0, first_at: now, seen_at: now } as const
      tx.run(db.insertInto('warmup_sources').values(values))
      if (history) takeOver(tx, source, history, established, now)
    }
    forgetSources(tx, now - KEPT)
    for (const [domain, receiver] of history?.domains ?? [])
      tx.run(
        raw('insert or ignore into warmup_domains (domain, receiver, seen_at) values (?, ?, ?)', [
          domain,
          receiver,
          now,
        ]),
      )
  })
}

function forgetSources(tx: Tx, before: number): void {
  tx.run(raw('delete from warmups where source in (select source from warmup_sources where seen_at < ?)', [before]))
  tx.run(db.deleteFrom('warmup_sources').where('seen_at', '<', before))
}

interface PastMail {
  daysWithMail: number
  /** The most recipients of a day, by receiver. */
  largest: Map<string, number>
  total: number
  /** The receivers of recipient domains. */
  domains: Map<string, string>
}

/** The mail of the last weeks, from the figures of receivers. */
function historyOf(reader: Reader, now: number): PastMail {
  const domains = receiversOf(reader, now)
  const rows = reader.all(
    raw<{ receiver: string; day: number; times: number }>(
      `select receiver, hour / 24 as day, sum(delivered + refused) as times from receiver_tallies
       where hour >= ? group by receiver, hour / 24 having times > 0`,
      [(dayOf(now) - LOOKED_BACK) * 24],
    ),
  )
  const days = new Map<string, Map<number, number>>()
  const all = new Map<number, number>()
  for (const { day, receiver, times } of rows) {
    const name = domains.get(receiver) ?? receiver
    const of = days.get(name) ?? new Map<number, number>()
    days.set(name, of)
    of.set(day, (of.get(day) ?? 0) + times)
    all.set(day, (all.get(day) ?? 0) + times)
  }
  const largest = new Map([...days].map(([name, of]) => [name, Math.max(...of.values())]))
  return { daysWithMail: all.size, largest, total: Math.max(0, ...all.values()), domains }
}

/** The receiver of each domain that an exchanger answered for. It reads the deliveries of these weeks once. */
function receiversOf(reader: Reader, now: number): Map<string, string> {
  const rows = reader.all(
    raw<{ lane: string; host: string }>(
      `select lane, max(remote_mta) as host from deliveries where remote_mta is not null and updated_at >= ? group by lane`,
      [now - LOOKED_BACK * DAY],
    ),
  )
  return new Map(rows.map(({ host, lane }) => [domainOf(lane), receiverOf(host, domainOf(lane))]))
}

/** Makes the pairs of a source that sent before. */
function takeOver(tx: Tx, source: string, { largest, total }: PastMail, established: boolean, now: number): void {
  const begin = (receiver: string, most: number): void => {
    if (findPair(tx, { source, receiver })) return
    const { steps } = ladderOf(shapingRules(), receiver)
    const last = steps.length - 1
    const none = { tried: 0, bulk: 0, usual: 0, closed: false }
    // A campaign as large as the largest day has to fit, beside what is left to transactional mail.
    const fits = steps.findIndex((step) => roomForBulk(step, none) >= most)
    const step = established ? fits : stepAbove(steps, most)
    const beyond = established ? fits < 0 : most > (steps[last] ?? 0)
    addPair(tx, { source, receiver }, now, beyond ? { status: 'warm', step: last } : { status: 'warming', step })
  }
  for (const [receiver, most] of largest) begin(receiver, most)
  if (!established && total > 0) begin(TOTAL, total)
}
