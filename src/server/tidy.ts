// The hourly tasks: delete data at the end of its retention time, and return the space to the disk.
import { DAY } from '../base/clock.ts'
import { reserveOf } from '../base/space.ts'
import { forgetInvitations } from '../users/invitations.ts'
import { forgetClients } from '../users/oauth/clients.ts'
import { forgetGrants } from '../users/oauth/grants.ts'
import { forgetRequests } from '../users/requests.ts'
import { forgetSessions } from '../users/sessions.ts'
import { forgetEntries } from '../jsonapi/audit.ts'
import type { AppDeps } from '../http/app-deps.ts'
import { eraseKeys } from '../domains/keys.ts'
import type { Store } from '../store/database.ts'
import { removeCopies } from '../store/way-back.ts'
import { keepReserve } from '../store/reserve.ts'
import type { Engine } from './engine.ts'
import { removeNoted } from '../store/leftovers.ts'
import { summarise } from './summary.ts'

/** How long files without a row are kept, and copies of the database from before an upgrade. */
const QUARANTINE = 30 * DAY
const COPIES = 7 * DAY

interface TidyDeps extends Pick<Engine, 'keys'> {
  /** Whether the date is in doubt (D120). If so, no data expires. */
  doubtful: boolean
}

export async function tidy(deps: AppDeps, { doubtful, keys }: TidyDeps): Promise<void> {
  const { clock, config, spool, store } = deps
  const now = clock.now()
  // If a wrong date expired a lease, an email in progress would be sent twice.
  if (doubtful) return
  if ((await eraseKeys(store, now)) > 0) keys.forget()
  for (const { hourly } of deps.subjects) await hourly?.(deps.partDeps, now)
  await forgetGrants(store, now)
  await forgetSessions(store, now)
  await forgetRequests(store, now)
  await forgetInvitations(store, now)
  await forgetClients(store, now)
  await forgetEntries(store, now)
  await summarise(deps, now)
  removeCopies(config.data_dir, now - COPIES)
  removeNoted(config.data_dir, now)
  keepReserve(config.data_dir, reserveOf(config))
  await spool.emptyQuarantine(now - QUARANTINE)
  await giveBack(store)
  // Last, because a file that cannot be removed must not prevent the other tasks.
  await spool.removeLeft()
}

/** Returns free space of the database to the disk in steps, so that other writes are not delayed. */
async function giveBack(store: Store): Promise<void> {
  while (await store.writeSoon(() => store.giveBack()));
}
