// The objects that the API's actions work with.
// An action passes them to a function, which declares the few that it needs.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import type { RateLimit } from '../accounts/rates.ts'
import type { Budget } from '../base/memory.ts'
import type { Space } from '../base/space.ts'
import type { Troubles } from '../base/trouble.ts'
import type { Pool } from '../base/pool.ts'
import type { InboundJob, InboundResult } from '../inbound/reader.ts'
import type { FetchDesk } from '../outbound/fetch.ts'
import { definer } from '../jsonapi/resource.ts'
import type { Store } from '../store/database.ts'
import type { Spool } from '../store/spool.ts'

export interface ApiDesk {
  store: Store
  spool: Spool
  clock: Clock
  keyring: Keyring
  log: Log
  config: Config
  fetching: FetchDesk
  troubles: Troubles
  space: Space
  /** Requests of each token, by HTTP and SMTP together. */
  rates: RateLimit
  /** The limit for all request bodies in memory. */
  bodies: Budget
  /** Reads received messages again, for their attachments. */
  inboundReader: Pick<Pool<InboundJob, InboundResult>, 'run'>
  /** Functions that ring the loops. */
  bells: {
    domains: () => void
    deliveries: (lane: string) => void
    webhooks: () => void
    campaigns: () => void
    privacy: () => void
  }
}

export const define = definer<ApiDesk>()
