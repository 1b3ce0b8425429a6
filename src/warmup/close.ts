// The end of a day, and what is kept: each pair is judged once a day, also for days on which the server was down.
import { DAY, type Clock } from '../base/clock.ts'
import type { Store } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { judgeDays, KEPT_DAYS, type JudgeDeps } from './judge.ts'
import { dayOf, isTurnedOff } from './pairs.ts'

/** Pairs that one transaction judges. */
const AT_ONCE = 50
/** How long the receiver of a domain is remembered that got no mail. */
const DOMAINS_KEPT = 180 * DAY

type CloseDeps = JudgeDeps & { store: Store; clock: Clock }

/** Judges every pair through yesterday. Returns how many were judged. */
export async function closeDays(deps: CloseDeps): Promise<number> {
  const { clock, config, store } = deps
  const yesterday = dayOf(clock.now()) - 1
  const open = db.selectFrom('warmups').selectAll().where('judged_day', '<', yesterday).limit(AT_ONCE)
  let judged = 0
  for (;;) {
    const count = await store.write((tx) => {
      const rows = tx.all(open)
      const off = !config.warmup.enabled || isTurnedOff(tx)
      for (const row of rows) judgeDays({ ...deps, tx, now: clock.now() }, row, off)
      return rows.length
    })
    judged += count
    if (count < AT_ONCE) return judged
  }
}

/** Deletes figures that no rule looks at, and pairs on the first step that had no mail for as long. */
export async function forgetDays({ clock, store }: Pick<CloseDeps, 'clock' | 'store'>): Promise<void> {
  const now = clock.now()
  const before = dayOf(now) - KEPT_DAYS
  await store.writeSoon((tx) => {
    tx.run(raw('delete from warmup_days where day < ?', [before]))
    tx.run(raw('delete from warmup_relayed where day < ?', [before]))
    tx.run(raw('delete from warmup_domains where seen_at < ?', [now - DOMAINS_KEPT]))
    tx.run(
      raw(
        `delete from warmups where status = 'warming' and step = 0 and receiver <> '*' and set_at is null and created_at < ?
           and not exists (select 1 from warmup_days d where d.warmup_key = warmups.key)`,
        [before * DAY],
      ),
    )
  })
}
