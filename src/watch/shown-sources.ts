// The sending IP addresses of this server as the API and the command show them.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { sourcesHere, type SourceAddress } from '../base/sources.ts'
import { canBind } from '../net/bindable.ts'
import type { Reader } from '../store/database.ts'
import { TOTAL } from '../warmup/schedule.ts'
import { dayIn, dayOf, findPair } from '../warmup/pairs.ts'
import { isWatched, listedOn, reverseOf } from './watches.ts'

export interface ShownSource extends Pick<SourceAddress, 'address' | 'role' | 'hostname'>, SeenByOthers, WarmedUp {
  /** Whether this machine can connect from it now. */
  usable: boolean
}

/** The PTR record and blocklist entries of an address, or null if unknown. */
interface SeenByOthers {
  reverse_dns: string | null
  forward_confirmed: boolean | null
  listed_on: string[] | null
}

/** The warm-up state of an address, and the recipients that were attempted from it today, or null without a warm-up. */
interface WarmedUp {
  state: string | null
  used_today: number | null
}

/** The results of the watch. Null for an address that has not been checked. */
const seenOf = (reader: Reader, address: string): SeenByOthers => ({
  ...reverseOf(reader, address),
  listed_on: isWatched(reader, address) ? listedOn(reader, address) : null,
})

function warmedUp(reader: Reader, source: string, now: number): WarmedUp {
  const total = findPair(reader, { source, receiver: TOTAL })
  return total
    ? { state: total.status, used_today: dayIn(reader, total.key, dayOf(now)).tried }
    : { state: null, used_today: null }
}

/** Every source, in the order of the configuration. */
export const shownSources = ({
  clock,
  config,
  store,
}: {
  clock: Clock
  config: Pick<Config, 'delivery' | 'hostname'>
  store: Reader
}): Promise<ShownSource[]> =>
  Promise.all(
    sourcesHere(config).map(async ({ address, hostname, role }) => ({
      address,
      role,
      hostname,
      ...seenOf(store, address),
      ...warmedUp(store, address, clock.now()),
      usable: await canBind(address),
    })),
  )
