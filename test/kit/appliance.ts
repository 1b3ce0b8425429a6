// The real server for tests: a temporary data directory, loopback ports, the kit's DNS and receiving servers, a clock
// turned by hand. It has two users, each with a token of all scopes. It owns the parts that are passed to it (a
// receiving server, a webhook receiver, domains) and disposes of them: `await using`, or ofFile (kit/of-file.ts).
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { HOUR } from '../../src/base/clock.ts'
import { parseConfig, type Config, type ConfigInput } from '../../src/base/config.ts'
import { createLog, silentLog, type Log, type LogOptions } from '../../src/base/log.ts'
import type { Timeouts } from '../../src/smtp/client.ts'
import { SCOPES, type Scope } from '../../src/jsonapi/scopes.ts'
import { createToken } from '../../src/users/tokens.ts'
import { addUser, findUser, type User } from '../../src/users/users.ts'
import type { ValidatingResolver } from '../../src/net/resolver.ts'
import { apiInside, createApp } from '../../src/http/server.ts'
import { createConsole } from '../../src/console/app.ts'
import { startAppliance, type Appliance } from '../../src/server/appliance.ts'
import type { Beside } from '../../src/archive/schedule.ts'
import type { ConfigSource } from '../../src/server/settings-file.ts'
import type { ListedPart } from '../../src/server/parts.ts'
import type { EveryHour } from '../../src/server/wiring.ts'
import { recordsOf } from '../../src/domains/records.ts'
import { domainByKey, type Domain } from '../../src/domains/find.ts'
import { registerDomain } from '../../src/domains/lifecycle.ts'
import { Commands, NOWHERE } from '../commands/command.ts'
import { ManualClock } from './clock.ts'
import type { TestExchanger } from './exchanger.ts'
import { usedKeyPair } from './keys.ts'
import { HOST, type TestReceiver } from './receiver.ts'
import { until } from './until.ts'
import { startTestDns, type TestDns } from './zone.ts'
import { emptyDatabase } from './database.ts'
import { temporaryDirectory } from './directory.ts'

/** A stand-in, so that programs on the machine do not change results. */
const SPAMASSASSIN = fileURLToPath(new URL('spamassassin.sh', import.meta.url))

export const JSON_API = 'application/vnd.api+json'

export interface Answer {
  status: number
  headers: Headers
  /** The parsed body, or undefined if empty. The type is loose on purpose: tests check the data that clients see. */
  body: any // oxlint-disable-line typescript/no-explicit-any
}

export interface TestAppliance extends AsyncDisposable {
  appliance: Appliance
  config: Config
  clock: ManualClock
  dns: TestDns
  dataDir: string
  user: User
  other: User
  token: string
  otherToken: string
  /**
   * A request to the API through app.request, without a socket. `path` is below /api/v1. `body` is sent as JSON:API.
   */
  api(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
  /** The same as the other user. */
  asOther(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
  /** Any request, by the complete URL path. No headers are added. */
  raw(path: string, init?: RequestInit): Promise<Answer>
  /** Any request to the application, including the console. Redirects are not followed. */
  page(path: string, init?: RequestInit): Promise<Response>
  tokenFor(user: User, scopes: readonly Scope[]): Promise<string>
  /** An active domain whose records are in the test DNS. */
  activeDomain(name: string, owner?: User): Promise<Domain>
  /** Publishes (or withdraws) the records that a domain needs now. */
  publish(domain: Domain, only?: (record: { record_type: string; required: number }) => boolean): void
  /** Routes the mail of a domain to the test's receiving server, via mx.NAME. */
  route(name: string, address?: string): void
  /** http://127.0.0.1:PORT */
  readonly url: string
  /** Command lines next to the server, with its data directory and its DNS. */
  readonly commands: Commands
  stop(): Promise<void>
}

export interface TestOptions {
  config?: ConfigInput
  dataDir?: string
  clock?: ManualClock
  log?: Log
  timeouts?: Timeouts
  /** Domains made through the API get new DKIM keys, as on a server, otherwise they get keys that were made before. */
  newKeys?: boolean
  /** The DNS of another appliance, which stays that one's. A new one when absent. */
  dns?: TestDns
  /** Port of HTTPS servers that DNS names: MTA-STS policies, hosts of links. */
  httpsPort?: number
  /** Gives the resolver of validated answers (DANE). Without it the kit's DNS is one that does not validate. */
  validating?: () => ValidatingResolver | undefined
  /** A file that the system touches when a time server has set the clock. */
  timeMarker?: string
  /** Where mail goes: the appliance starts it, sends to its port, and closes it. */
  exchanger?: TestExchanger
  /** Where webhooks go: the appliance starts it, finds and trusts it, and closes it. */
  receiver?: TestReceiver
  /** Active domains of the first user. */
  domains?: readonly string[]
  /** Active domains of the other user. */
  otherDomains?: readonly string[]
  /** Domains whose mail goes to the receiving server. */
  routes?: readonly string[]
  /** The public URL is `url`, which other processes can open. */
  open?: boolean
  /** The parts of the server. All of them when absent. */
  parts?: readonly ListedPart[]
  /** The server is one of a failover pair, as `postrider standby` starts it. */
  pair?: boolean
  /** Hears why the server cannot continue. */
  fatal?: (reason: Error) => void
  /** Runs commands next to the server: the schedule of backups begins with it. */
  beside?: Beside
  /** The configuration file, which the console can change. */
  source?: ConfigSource
  /** Keeps the lines of the log from this level on, as JSON. */
  logged?: { level: LogOptions['level']; lines: string[] }
}

/** Hourly tasks by a clock that is turned. */
export const everyHourBy =
  (clock: ManualClock): EveryHour =>
  (run) => {
    let cancel = (): void => {}
    const again = (): void => {
      cancel = clock.wake(clock.now() + HOUR, () => {
        run()
        again()
      })
    }
    again()
    return { destroy: () => cancel() }
  }

export async function startTestAppliance(options: TestOptions = {}): Promise<TestAppliance> {
  await using stack = new AsyncDisposableStack()
  const dataDir = options.dataDir ?? temporaryDirectory('test')
  if (options.dataDir === undefined) {
    emptyDatabase(dataDir)
    stack.defer(() => rmSync(dataDir, { recursive: true, force: true }))
  }
  const dns = options.dns ?? (await startTestDns())
  if (!options.dns) stack.defer(() => dns.close())
  const clock = options.clock ?? new ManualClock()
  const { exchanger, receiver, logged } = options
  await exchanger?.listen()
  await receiver?.listen()
  const { http, network, api, smtp, delivery, webhooks, watch, ...rest } = options.config ?? {}
  const config = parseConfig({
    hostname: 'mx.postrider.test',
    data_dir: dataDir,
    http: { listen: '127.0.0.1:0', ...http },
    smtp: { listen: ['127.0.0.1:0'], ...smtp },
    network: { allow_private: ['127.0.0.0/8'], ...network },
    // Tests make more requests than people.
    api: { rate_limit: 0, ...api },
    // Each thread loads the code again, which takes longer than most tests.
    workers: { count: 1 },
    delivery: { ...(exchanger ? { port: exchanger.port } : {}), ...delivery },
    webhooks: { ...(receiver ? { ca_file: receiver.caFile } : {}), ...webhooks },
    // Its queries and notices would disturb tests that turn the clock by days.
    watch: { interval: '0', ...watch },
    ...rest,
  })
  // Without an address of the host no domain becomes active (D219). The usual host has one (zone.ts).
  if (!options.dns) dns.set(config.hostname, 'A', ['127.0.0.1'])
  const keep = (line: string): void => void logged?.lines.push(line)
  const appliance = await startAppliance({
    config,
    clock,
    log: options.log ?? (logged ? createLog({ clock, level: logged.level, form: 'json', write: keep }) : silentLog),
    resolver: options.validating ? { ...dns.resolver, validated: options.validating() } : dns.resolver,
    everyHour: everyHourBy(clock),
    ...(options.timeouts ? { timeouts: options.timeouts } : {}),
    ...(options.httpsPort === undefined ? {} : { httpsPort: options.httpsPort }),
    ...(options.timeMarker === undefined ? {} : { timeMarker: options.timeMarker }),
    ...(options.pair === undefined ? {} : { pair: options.pair }),
    ...(options.fatal === undefined ? {} : { fatal: options.fatal }),
    ...(options.parts === undefined ? {} : { parts: options.parts }),
    ...(options.beside === undefined ? {} : { beside: options.beside }),
    ...(options.source === undefined ? {} : { source: options.source }),
  })
  stack.defer(() => appliance.stop())
  // A connection that hangs would hold up the stop.
  if (exchanger) stack.use(exchanger)
  if (receiver) stack.use(receiver)
  const { deps } = appliance
  if (!options.newKeys) Object.assign(deps, { makeKeys: () => usedKeyPair(2048) })
  deps.spamAssassin = SPAMASSASSIN
  const app = createApp(deps)
  const console_ = createConsole(deps, apiInside(deps))
  app.route('/', console_.app)
  stack.defer(() => console_.close())
  // A data directory that was used before has them already.
  const person = async (email: string): Promise<User> => findUser(deps.store, email) ?? addUser(deps, { email })
  const user = await person('ann@owner.test')
  const other = await person('bob@other.test')
  const tokenFor = async (whose: User, scopes: readonly Scope[]): Promise<string> =>
    (
      await createToken(deps, whose.key, {
        name: 'test',
        scopes,
        duration: '12_months',
        operator: whose.operator === 1,
      })
    ).plaintext
  const token = await tokenFor(user, SCOPES)
  const otherToken = await tokenFor(other, SCOPES)

  const raw = async (path: string, init?: RequestInit): Promise<Answer> => {
    const response = await app.request(path, init)
    const text = await response.text()
    const json = /json/.test(response.headers.get('content-type') ?? '')
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? undefined : json ? JSON.parse(text) : text,
    }
  }
  const as =
    (bearer: string) =>
    (method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
      raw(`/api/v1${path}`, {
        method,
        headers: {
          authorization: `Bearer ${bearer}`,
          ...(body === undefined ? {} : { 'content-type': JSON_API }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      })

  const TYPES: Record<string, string> = { MAIL_FROM_MX: 'MX', INBOUND_MX: 'MX', TRACKING: 'CNAME' }
  const publish: TestAppliance['publish'] = (domain, only = () => true) => {
    for (const record of recordsOf(deps.store, domain.key))
      dns.set(record.name, TYPES[record.record_type] ?? 'TXT', only(record) ? [record.value] : undefined)
  }
  const url = `http://127.0.0.1:${appliance.http.port}`
  if (options.open) config.http.public_url = url
  let commands: Commands | undefined
  const postrider: TestAppliance = {
    appliance,
    config,
    clock,
    dns,
    dataDir,
    user,
    other,
    token,
    otherToken,
    api: as(token),
    asOther: as(otherToken),
    raw,
    page: async (path, init) => app.request(path, init),
    tokenFor,
    publish,
    async activeDomain(name, owner = user) {
      // Keys of 1024 bits work like keys of 2048 (RFC 8301 §3.2), in a fraction of the time. Domains made through the
      // API have keys of 2048 bits.
      const makeKeys = () => usedKeyPair(1024)
      const domain = await registerDomain({ ...deps, makeKeys, ring: () => {} }, owner.key, { name, purpose: 'both' })
      publish(domain)
      deps.bells.domains()
      return until(() => {
        const now = domainByKey(deps.store, domain.key)
        return now?.status === 'active' ? now : undefined
      }, `${name} active`)
    },
    route(name, address = '127.0.0.1') {
      dns.set(name, 'MX', [`10 mx.${name}`])
      dns.set(`mx.${name}`, 'A', [address])
    },
    url,
    get commands() {
      commands ??= Commands.beside({ dataDir }, `${NOWHERE}[dns]\nservers = ["127.0.0.1:${dns.port}"]\n`)
      return commands
    },
    stop: async () => all.disposeAsync(),
    [Symbol.asyncDispose]: () => postrider.stop(),
  }
  stack.defer(() => commands?.close())
  for (const name of options.domains ?? []) await postrider.activeDomain(name)
  for (const name of options.otherDomains ?? []) await postrider.activeDomain(name, other)
  for (const name of options.routes ?? []) postrider.route(name)
  if (receiver) dns.set(HOST, 'A', ['127.0.0.1'])
  const all = stack.move()
  return postrider
}

/** A request document. */
export const document = (type: string, attributes: Record<string, unknown>, more: Record<string, unknown> = {}) => ({
  data: { type, attributes, ...more },
})
