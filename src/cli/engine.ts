// The delivery engine with all that belongs to it, assembled once for the server and for `postrider send`.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { allowPublicAnd } from '../base/network.ts'
import { Pool } from '../base/pool.ts'
import type { Resolver } from '../base/resolver.ts'
import type { CampaignJob, ComposeJob, ComposerAsks } from '../message/worker.ts'
import { CampaignLetters } from '../campaigns/letters.ts'
import type { Timeouts } from '../smtp/client.ts'
import type { RouteOptions } from '../smtp/route.ts'
import type { Store } from '../store/database.ts'
import type { Spool } from '../store/spool.ts'
import { OpenKeys } from '../domains/keys.ts'
import { DeliveryEngine } from '../outbound/deliver.ts'
import type { FetchDesk } from '../outbound/fetch.ts'
import { StsPolicies } from '../outbound/sts.ts'

export interface EngineDesk {
  store: Store
  spool: Spool
  clock: Clock
  keyring: Keyring
  log: Log
  config: Config
  resolver: Resolver
}

export interface EngineOptions {
  timeouts?: Timeouts | undefined
  home?: RouteOptions['home']
  /** Port of MTA-STS policy servers; 443 but in tests. */
  stsPort?: number | undefined
  /** Worker threads at most. */
  workers?: number
}

export interface Engine {
  engine: DeliveryEngine
  keys: OpenKeys
  composer: Pool<ComposeJob | CampaignJob, Uint8Array<ArrayBuffer>>
  letters: CampaignLetters
}

/** What fetches from strangers' URLs may do, by the configuration. */
export function fetchingOf({ config, resolver }: Pick<EngineDesk, 'config' | 'resolver'>): FetchDesk {
  return { resolver, allowed: allowPublicAnd(config.network.allow_private), caFile: config.webhooks.ca_file }
}

export function createEngine(desk: EngineDesk, { home, stsPort, timeouts, workers }: EngineOptions = {}): Engine {
  const fetching = fetchingOf(desk)
  const keys = new OpenKeys(desk.store, desk.keyring)
  const letters = new CampaignLetters(desk)
  const composer = new Pool<ComposeJob | CampaignJob, Uint8Array<ArrayBuffer>>(
    new URL('../message/worker.ts', import.meta.url),
    {
      size: workers,
      answer: async (asked: ComposerAsks) => ('key' in asked ? keys.pem(asked.key) : letters.template(asked.campaign)),
    },
  )
  const sts = new StsPolicies({ ...desk, fetching, stsPort })
  const engine = new DeliveryEngine({
    ...desk,
    composer,
    keys,
    sts,
    timeouts,
    home,
    bulk: letters,
    allowed: fetching.allowed,
  })
  return { engine, keys, composer, letters }
}
