// The hourly tasks: delete data at the end of its retention time, and return the space to the disk.
import { DAY } from '../base/clock.ts'
import { reserveOf } from '../base/space.ts'
import { forgetInvitations } from '../identity/invitations.ts'
import { forgetClients } from '../identity/oauth-clients.ts'
import { forgetGrants } from '../identity/oauth-grants.ts'
import { forgetSessions } from '../identity/sessions.ts'
import type { AppDeps } from '../http/app-deps.ts'
import { forgetRefused } from '../campaigns/import-history.ts'
import { eraseKeys } from '../domains/keys.ts'
import { removeOld, removeOldReports } from '../inbound/stored.ts'
import { releaseLapsed } from '../delivery/queue/claim.ts'
import { forgetReports } from '../reports/retention.ts'
import { settleReceivers } from '../reputation/receivers.ts'
import { removeGone } from '../images/images.ts'
import { removeOldBodies } from '../mail/retention.ts'
import { forgetSoftBounces } from '../suppressions/suppressions.ts'
import type { Store } from '../store/database.ts'
import { removeOldEvents } from '../store/event-sums.ts'
import { removeCopies } from '../store/way-back.ts'
import { keepRoom } from '../store/room.ts'
import { readUpTo } from '../webhooks/cursor.ts'
import { removeOldDeliveries } from '../webhooks/retention.ts'
import type { Engine } from './engine.ts'
import { removeNoted } from '../store/leavings.ts'
import { settleDowngrades } from '../domains/downgrades.ts'
import { closeDays, forgetDays } from '../warmup/close.ts'
import { summarise } from './summary.ts'

/** How long files without a row are kept, and copies of the database from before an upgrade. */
const QUARANTINE = 30 * DAY
const COPIES = 7 * DAY

interface TidyDeps extends Pick<Engine, 'engine' | 'keys'> {
  /** Whether the date is in doubt (D120): nothing is deleted for its age then. */
  doubtful: boolean
}

export async function tidy(deps: AppDeps, { doubtful, engine, keys }: TidyDeps): Promise<void> {
  const { clock, config, spool, store } = deps
  const now = clock.now()
  // A lease that a wrong date ends would send a mail twice that is under way.
  if (doubtful) return
  if ((await eraseKeys(store, now)) > 0) keys.forget()
  await forgetSoftBounces(store, now)
  await forgetRefused(store, now)
  await settleReceivers(store, now)
  await closeDays({ ...deps, noticed: deps.bells.notices })
  await forgetDays(deps)
  await forgetGrants(store, now)
  await forgetSessions(store, now)
  await forgetInvitations(store, now)
  await forgetClients(store, now)
  await settleDowngrades(deps, now)
  await summarise(deps, now)
  if ((await releaseLapsed(deps, now)) > 0) engine.ring()
  removeCopies(config.data_dir, now - COPIES)
  removeNoted(config.data_dir, now)
  keepRoom(config.data_dir, reserveOf(config))
  await spool.emptyQuarantine(now - QUARANTINE)
  await removeGone(deps)
  const { events, inbound, outbound_bodies, report_messages, reports } = config.retention
  if (outbound_bodies > 0) await removeOldBodies(deps, now - outbound_bodies)
  if (inbound > 0) while ((await removeOld(deps, now - inbound)) > 0);
  if (report_messages > 0) while ((await removeOldReports(deps, now - report_messages)) > 0);
  if (reports > 0) await forgetReports(store, now - reports)
  if (events > 0) {
    await removeOldEvents(store, now - events, readUpTo(store))
    await removeOldDeliveries(store, now - events)
  }
  await giveBack(store)
  // Last, because a file that cannot be removed must not prevent the other tasks.
  await spool.removeLeft()
}

/** Returns free space of the database to the disk in steps, so that other writes are not delayed. */
async function giveBack(store: Store): Promise<void> {
  while (await store.writeSoon(() => store.giveBack()));
}
