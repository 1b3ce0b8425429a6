// The objects that the API's actions work with. An action passes them to functions; each function declares the ones
// that it needs.
import type { SignIns } from '../accounts/sign-in.ts'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import type { RateLimit } from '../accounts/rates.ts'
import type { Budget } from '../base/memory.ts'
import type { Space } from '../base/space.ts'
import type { Samples } from './samples.ts'
import type { Troubles } from '../base/trouble.ts'
import type { Pool } from '../base/pool.ts'
import type { AdvisedRecord } from '../domains/advised.ts'
import type { Domain } from '../domains/find.ts'
import type { InboundJob, InboundResult } from '../inbound/reader.ts'
import type { FetchDeps } from '../outbound/accept/fetch.ts'
import { definer } from '../jsonapi/resource.ts'
import type { Store } from '../store/database.ts'
import type { Spool } from '../store/spool.ts'

/** Questions that need the whole running process. */
export interface Operations {
  /** The records that are advised for a domain on this machine at this time. */
  advised(domain: Domain): Promise<AdvisedRecord[]>
  /** Queries the DNS of a domain now. */
  check(domainKey: number): Promise<unknown>
  state(): Promise<{
    findings: { check: string; status: 'ok' | 'warn' | 'fail'; detail: string; mend: string | null }[]
    storage: { kind: string; octets: number }[]
    last_backup_at: number | null
    certificate_ends_at: number | null
  }>
}

export interface ApiDeps {
  operations: Operations
  store: Store
  spool: Spool
  clock: Clock
  keyring: Keyring
  log: Log
  config: Config
  fetching: FetchDeps
  troubles: Troubles
  space: Space
  samples: Samples
  /** The path or name of SpamAssassin's program; it need not be installed. */
  spamAssassin: string
  /** Requests of each token, by HTTP and SMTP together. */
  rates: RateLimit
  /** The brakes of all ways to sign in together: console, OAuth, and the proof for a change of a credential. */
  signIns: SignIns
  /** The ports on which submission listens, once it does. */
  ports: { starttls: number[]; tls: number[] }
  /** The limit for all request bodies in memory. */
  bodies: Budget
  /** Reads a stored received message again, to get its attachments. */
  inboundReader: Pick<Pool<InboundJob, InboundResult>, 'run'>
  /** Functions that wake the loops. */
  bells: {
    domains: () => void
    deliveries: (lane: string) => void
    /** Anything in the queue may have changed. */
    queue: () => void
    webhooks: () => void
    campaigns: () => void
    privacy: () => void
  }
}

export const define = definer<ApiDeps>()
