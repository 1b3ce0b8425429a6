// A part of the server: one subject declares itself once, as one typed value in its `part.ts`. The list of the parts is
// server/parts.ts. The API, the console, the metrics and the running server are made from that list, and no file that
// uses a part names it. There are no plugins: the list is complete at build time.
import type { Hono } from 'hono'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Counter, MetricLabels } from '../base/counters.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import type { AddressCheck } from '../base/network.ts'
import type { Troubles } from '../base/trouble.ts'
import type { AccountFinder, Finder, Finding } from './findings/finding.ts'
import type { Inside } from '../jsonapi/in-process-api.ts'
import type { Resource } from '../jsonapi/resource.ts'
import type { Resolver } from '../net/resolver.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import type { Spool } from '../store/spool.ts'
import type { Place } from '../views/html/place.ts'
import type { Visit } from '../views/html/visit.ts'
import type { MenuEntry, ServerTab } from '../views/html/navigation.ts'
import type { Html } from '../views/html/widgets.ts'
import type { Forget } from './forget.ts'
import type { DeliveryGate } from './gate.ts'
import type { ReportReceiver } from './received.ts'

/** The dependencies of a part in a running server, and in a command that delivers email. */
export interface PartDeps {
  store: Store
  spool: Spool
  clock: Clock
  keyring: Keyring
  log: Log
  config: Config
  resolver: Resolver
  troubles: Troubles
  /** Which addresses this server may connect to. */
  allowed: AddressCheck
  /** Wakes the loop that sends notices. */
  noticed: () => void
  /** Wakes the queue, because any email may be due now. */
  queueChanged: () => void
  /** Looks again at email that waits for a gate. */
  limitsChanged: () => void
  /** Whether the system clock is unreliable, so that no scheduled email is sent (D120). */
  doubtful: () => boolean
}

export interface MetricDeps extends Pick<PartDeps, 'store' | 'clock' | 'config' | 'troubles'> {
  operations: { findings(): readonly Finding[] }
}

/** A metric: each value with its labels. */
export interface Metric {
  name: string
  help: string
  type: 'gauge' | 'counter'
  values: (deps: MetricDeps) => MetricValues | Promise<MetricValues>
}

/** A counter as a metric. */
export const counterMetric = (counter: Counter): Metric => ({
  name: counter.name,
  help: counter.help,
  type: 'counter',
  values: () => counter.values(),
})

export type MetricValues = readonly (readonly [MetricLabels, number])[]

/** A loop of the server. It starts after the ports are open. */
interface PartLoop {
  start(): unknown
  stop(): Promise<void>
  /** Wakes the loop after a reload, and after a command has changed the database. */
  ring?(): void
}

/** An answer to a request that a recipient made. */
export interface RecipientAnswer {
  /** The id of the request. */
  id: string
  kind: 'export' | 'declined'
  /** The key of the sending domain. */
  domain: number
  to: string
  language: string
  /** The link to a finished export. */
  link?: string
  /** Why the request was declined. */
  reason?: string
}

export type AnswerMailDeps = Pick<PartDeps, 'clock' | 'config' | 'keyring' | 'queueChanged'>

/** A section of the page of a domain. */
export interface DomainPanel {
  title: string
  show: (visit: Visit, domainId: string, name: string) => Promise<Html>
}

/** `Deps`: the dependencies of its resources and pages. */
export interface ServerPart<Deps = never> {
  readonly name: string
  resources?: readonly Resource<Deps>[]
  pages?: readonly Place[] | ((deps: Deps) => readonly Place[])
  /** Entries of the menu of the console. */
  menu?: readonly MenuEntry[]
  /** Tabs of the page "Server", between "Load" and "Log". */
  serverTabs?: readonly ServerTab[]
  domainPanel?: DomainPanel
  figures?: readonly Metric[]
  /** Checks of this server. `postrider doctor` lists their findings in the order of the parts. */
  findings?: readonly Finder[]
  /** Returns the problems of an account. */
  accountFindings?: AccountFinder
  /** Routes next to the API and the console. `inside` is the API without a socket. */
  routes?: (deps: Deps, inside: Inside) => Hono
  /** Called in the transaction that writes the HTML of a campaign. */
  campaignWritten?: (tx: Tx, campaign: { key: number; user_key: number }, html: string) => void
  /** Emails an answer to a recipient, in its transaction. Returns whether it is queued. At most one part does. */
  tellRecipient?: (tx: Tx, deps: AnswerMailDeps, answer: RecipientAnswer) => boolean
  /** Limits how much email is sent. At most one part has a gate. */
  gate?: (deps: PartDeps) => DeliveryGate
  /** Receives aggregate reports. At most one part does. */
  reports?: (deps: PartDeps) => ReportReceiver
  forget?: Forget
  /** Called at the start of a server, and after each reload of the configuration. */
  configured?: (deps: PartDeps) => Promise<void>
  /** Returns a function that the server calls every second. */
  everySecond?: (deps: PartDeps) => () => void
  /** Called every hour, unless the date is in doubt. */
  hourly?: (deps: PartDeps, now: number) => Promise<unknown>
  loops?: (deps: PartDeps) => readonly PartLoop[]
  /** Whether a row names a file of the spool. */
  ownsFile?: (reader: Reader, file: string) => boolean
}

export const part = <Deps>(name: string, content: Omit<ServerPart<Deps>, 'name'>): ServerPart<Deps> => ({
  name,
  ...content,
})
