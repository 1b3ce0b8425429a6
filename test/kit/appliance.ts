// The real appliance for tests: a temporary data directory, loopback ports, the kit's DNS and exchangers, a clock
// turned by hand. It has two users, each with a token of all scopes.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { HOUR } from '../../src/base/clock.ts'
import { parseConfig, type Config, type ConfigInput } from '../../src/base/config.ts'
import { silentLog, type Log } from '../../src/base/log.ts'
import type { Timeouts } from '../../src/smtp/client.ts'
import { SCOPES, type Scope } from '../../src/identity/scopes.ts'
import { createToken } from '../../src/identity/tokens.ts'
import { addUser, findUser, type User } from '../../src/identity/users.ts'
import { apiInside, createApp } from '../../src/http/server.ts'
import { createConsole } from '../../src/console/app.ts'
import { startAppliance, type Appliance } from '../../src/server/appliance.ts'
import { recordsOf } from '../../src/domains/records.ts'
import { domainByKey, type Domain } from '../../src/domains/find.ts'
import { registerDomain } from '../../src/domains/lifecycle.ts'
import { ManualClock } from './clock.ts'
import { usedKeyPair } from './keys.ts'
import { until } from './until.ts'
import { startTestDns, type TestDns } from './zone.ts'

/** A stand-in, so that the programs on the machine do not change results. */
const SPAMASSASSIN = fileURLToPath(new URL('spamassassin.sh', import.meta.url))

export const JSON_API = 'application/vnd.api+json'

export interface Answer {
  status: number
  headers: Headers
  /** The parsed body; undefined when empty. The type is loose on purpose: tests check the data that clients see. */
  body: any // oxlint-disable-line typescript/no-explicit-any
}

export interface TestAppliance {
  appliance: Appliance
  config: Config
  clock: ManualClock
  dns: TestDns
  dataDir: string
  user: User
  other: User
  token: string
  otherToken: string
  /** A request to the API through app.request, no socket. `path` is below /api/v1. `body` is sent as JSON:API. */
  api(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
  /** The same as the other user. */
  asOther(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
  /** Any request, from the whole URL path; no headers are added. */
  raw(path: string, init?: RequestInit): Promise<Answer>
  /** Any request to the whole application, the console too; redirects are not followed. */
  page(path: string, init?: RequestInit): Promise<Response>
  tokenFor(user: User, scopes: readonly Scope[]): Promise<string>
  /** An active domain whose records are in the test DNS. */
  activeDomain(name: string, owner?: User): Promise<Domain>
  /** Publishes (or withdraws) the records that a domain needs now. */
  publish(domain: Domain, only?: (record: { record_type: string; required: number }) => boolean): void
  stop(): Promise<void>
}

export interface TestOptions {
  config?: ConfigInput
  dataDir?: string
  clock?: ManualClock
  log?: Log
  timeouts?: Timeouts
  /** Domains made through the API get new DKIM keys, as on a server; otherwise they get keys that were made before. */
  newKeys?: boolean
  /** Port of MTA-STS policy servers. */
  stsPort?: number
  /** A file that the system touches when a time server has set the clock. */
  timeMarker?: string
}

export async function startTestAppliance(options: TestOptions = {}): Promise<TestAppliance> {
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), 'postrider-test-'))
  const dns = await startTestDns()
  const clock = options.clock ?? new ManualClock()
  const { http, network, api, smtp, ...rest } = options.config ?? {}
  const config = parseConfig({
    hostname: 'mx.postrider.test',
    data_dir: dataDir,
    http: { listen: '127.0.0.1:0', ...http },
    smtp: { listen: ['127.0.0.1:0'], ...smtp },
    network: { allow_private: ['127.0.0.0/8'], ...network },
    // Tests make more requests than people.
    api: { rate_limit: 0, ...api },
    // Each thread loads its program again, which takes longer than most tests.
    workers: { count: 1 },
    ...rest,
  })
  const appliance = await startAppliance({
    config,
    clock,
    log: options.log ?? silentLog,
    resolver: dns.resolver,
    everyHour: (run) => {
      let cancel = (): void => {}
      const again = (): void => {
        cancel = clock.wake(clock.now() + HOUR, () => {
          run()
          again()
        })
      }
      again()
      return { destroy: () => cancel() }
    },
    ...(options.timeouts ? { timeouts: options.timeouts } : {}),
    ...(options.stsPort === undefined ? {} : { stsPort: options.stsPort }),
    ...(options.timeMarker === undefined ? {} : { timeMarker: options.timeMarker }),
  })
  const { deps } = appliance
  if (!options.newKeys) Object.assign(deps, { makeKeys: () => usedKeyPair(2048) })
  deps.spamAssassin = SPAMASSASSIN
  const app = createApp(deps)
  const console_ = createConsole(deps, apiInside(deps), () => appliance.notices.ring())
  app.route('/', console_.app)
  // A data directory that was used before has them already.
  const person = async (email: string): Promise<User> => findUser(deps.store, email) ?? addUser(deps, { email })
  const user = await person('ann@owner.test')
  const other = await person('bob@other.test')
  const tokenFor = async (whose: User, scopes: readonly Scope[]): Promise<string> =>
    (await createToken(deps, whose.key, { name: 'test', scopes, duration: '12_months' })).plaintext
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
  return {
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
      // Keys of 1024 bits work like keys of 2048 (RFC 8301 §3.2), in a fraction of the time; domains made through the
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
    async stop() {
      console_.close()
      await appliance.stop()
      await dns.close()
      if (options.dataDir === undefined) rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** A request document. */
export const document = (type: string, attributes: Record<string, unknown>, more: Record<string, unknown> = {}) => ({
  data: { type, attributes, ...more },
})
