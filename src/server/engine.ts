// Assembles the delivery engine and its parts, for the server and for `postrider send`.
import { MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Cut } from '../base/cut.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { threadsHere } from '../base/memory.ts'
import type { Troubles } from '../base/trouble.ts'
import type { Resolver } from '../net/resolver.ts'
import type { LetterAsks } from '../message/letters.ts'
import { QueuedAhead } from '../campaigns/queued-ahead.ts'
import { CampaignLetters } from '../campaigns/letters.ts'
import type { Timeouts } from '../smtp/client.ts'
import type { RouteOptions } from '../smtp/route.ts'
import type { Store } from '../store/database.ts'
import type { Spool } from '../store/spool.ts'
import { OpenKeys } from '../domains/keys.ts'
import { DeliveryEngine } from '../delivery/deliver.ts'
import { fetchingOf } from '../net/fetch.ts'
import { NoticeMailer } from '../mail/notice-mail.ts'
import { StsCache } from '../delivery/wire/connect.ts'
import { Ways } from '../delivery/queue/ways.ts'
import { DeliveryWorkers } from '../delivery/wire/workers.ts'
import { SubmittedMail } from '../mail/submitted.ts'
import { OPEN_GATE, type DeliveryGate } from '../parts/gate.ts'
import type { PartDeps } from '../parts/part.ts'

export interface EngineDeps {
  store: Store
  spool: Spool
  clock: Clock
  keyring: Keyring
  log: Log
  config: Config
  resolver: Resolver
  troubles: Troubles
  /** Cancels pending DNS queries and policy requests, including those of `resolver`. */
  cut: Cut
  /** The port of MTA-STS policy hosts. 443 except in tests. */
  httpsPort?: number | undefined
  /** Whether the system clock is unreliable. Absent in a command. */
  doubtful?: () => boolean
}

export interface EngineOptions {
  timeouts?: Timeouts | undefined
  home?: RouteOptions['home']
  /** Maximum number of worker threads. The default is the configured number. */
  threads?: number
  /** Creates the gate that limits how much email is sent. */
  gate?: (deps: PartDeps) => DeliveryGate
}

export interface Engine {
  engine: DeliveryEngine
  keys: OpenKeys
  workers: DeliveryWorkers
  letters: CampaignLetters
  ahead: QueuedAhead
  notices: NoticeMailer
  gate: DeliveryGate
  partDeps: PartDeps
}

/** CPU time to compose one mail: many times the need of 40 MB. A hostile page cannot occupy a thread for longer. */
const COMPOSING = MINUTE
const LEAST_THREADS = 2

export function createEngine(
  deps: EngineDeps,
  { gate: makeGate = () => OPEN_GATE, home, threads, timeouts }: EngineOptions = {},
): Engine {
  const fetching = fetchingOf(deps)
  const keys = new OpenKeys(deps.store, deps.keyring)
  const ahead = new QueuedAhead(deps.clock)
  const letters = new CampaignLetters({ ...deps, ahead })
  const workers = new DeliveryWorkers({
    size: threads ?? (deps.config.workers.count || threadsHere(LEAST_THREADS)),
    cpu: COMPOSING,
    answer: async (question) => {
      const asked = question as LetterAsks
      return 'key' in asked ? keys.pem(asked.key) : letters.template(asked.campaign)
    },
  })
  const sts = new StsCache({ ...deps, fetching })
  const connecting = { ...deps, keys, sts, timeouts, home, allowed: fetching.allowed, ways: new Ways(deps.config) }
  const notices = new NoticeMailer(connecting)
  const partDeps: PartDeps = {
    ...deps,
    allowed: fetching.allowed,
    queueChanged: () => engine.ring(),
    noticed: () => notices.ring(),
    limitsChanged: () => engine.dailyLimitsChanged(),
    doubtful: deps.doubtful ?? (() => false),
  }
  const gate = makeGate(partDeps)
  const engine = new DeliveryEngine({
    ...connecting,
    gate,
    workers,
    sources: { submitted: new SubmittedMail(deps), campaign: letters },
  })
  return { engine, keys, workers, ahead, letters, notices, gate, partDeps }
}
