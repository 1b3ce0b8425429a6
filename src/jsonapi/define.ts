// The dependencies of the API's actions. An action passes them to functions, and each function declares the ones that
// it needs. A subject that needs more defines its resources by `definer<ApiDeps & ItsParts>()`.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import type { RateLimit } from '../base/rates.ts'
import type { Budget } from '../base/memory.ts'
import type { Space } from '../base/space.ts'
import type { Troubles } from '../base/trouble.ts'
import type { FetchDeps } from '../net/fetch.ts'
import { definer } from './resource.ts'
import type { Store } from '../store/database.ts'
import type { Spool } from '../store/spool.ts'

export interface ApiDeps {
  store: Store
  spool: Spool
  clock: Clock
  keyring: Keyring
  log: Log
  config: Config
  fetching: FetchDeps
  troubles: Troubles
  space: Space
  /** The path or name of SpamAssassin's client, which may not be installed. */
  spamAssassin: string
  /** Requests of each token, by HTTP and SMTP together. */
  rates: RateLimit
  /** The ports on which submission listens, once it does. */
  ports: { starttls: number[]; tls: number[] }
  /** The limit for all request bodies in memory. */
  bodies: Budget
  /** Functions that wake the loops. */
  bells: {
    domains: () => void
    deliveries: (lane: string) => void
    /** The queue may have changed. */
    queue: () => void
    webhooks: () => void
    campaigns: () => void
    privacy: () => void
    /** A notification is queued. */
    notices: () => void
  }
}

export const define = definer<ApiDeps>()
