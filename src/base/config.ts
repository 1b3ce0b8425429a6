// The configuration: one TOML file. Every key can also be set by the environment (config-environment.ts), and has a
// default. For an unknown key or an invalid value, Postrider does not start. The error has the file, the line and the
// correction.
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { z } from 'zod'
import { missingSetting, titlesOf } from './backup-target.ts'
import {
  addressEndpoint,
  backupTarget,
  cron,
  duration,
  endpoint,
  hostName,
  mailAddress,
  mailbox,
  more,
  mxOrHost,
  network,
  port,
  publicUrl,
  redirectOrigin,
  relayHost,
  secureUrl,
  size,
  text,
  signupSettings,
} from './config-values.ts'
import { dataDirBeside, instanceDataDir, instanceOf } from './config-file.ts'
import { applyEnvironment, demandKnown, type Environment } from './config-environment.ts'
import { HOUR } from './clock.ts'
import { codeOf, OperatorError } from './errors.ts'
import { whyUnread } from './file-faults.ts'
import { readNamed } from './plain-file.ts'
import { firstIssue, issueWords } from './issues.ts'
import { LEVELS } from './log.ts'
import { formatEndpoint, reachedAt } from './network.ts'
import { repeatedSource } from './sources.ts'
import { parseToml } from './toml.ts'

const section = <T extends z.ZodRawShape>(shape: T) => z.strictObject(shape).prefault({} as never)

/** A fraction of emails. */
const rate = () => z.number('must be a number from 0 to 1').min(0).max(1)

const route = z.strictObject({
  name: z
    .string()
    .regex(/^[\w.-]{0,64}$/, 'must consist of letters, digits, dots and hyphens')
    .default(''),
  domains: z.array(z.string().min(1)).default([]),
  host: mxOrHost().default(''),
  hosts: z
    .array(relayHost())
    .max(20, 'must have at most 20 hosts')
    .refine(({ length }) => length !== 1, 'must have at least 2 hosts; for a single one, use "host"')
    .default([]),
  port: port().min(1).default(25),
  tls: z.enum(['none', 'optional', 'required', 'dane']).default('optional'),
  username: text().default(''),
  password_file: text().default(''),
  spf: text().default(''),
})

const sourceAddress = () => z.union([z.ipv4(), z.ipv6()], 'must be an IP address')

/** A local address that sends mail (sources.ts). */
const source = z.strictObject({
  address: sourceAddress(),
  role: z.enum(['any', 'transactional', 'bulk']).default('any'),
  hostname: hostName().default(''),
  warmup: z.boolean().default(true),
  machine: text().default(''),
})

const plan = z.strictObject({
  included_volume: z.int().min(0).nullable().default(null),
  branded_tracking: z.boolean().default(false),
})

/** Zones of blocklists: each costs questions in every round. */
const zones = () =>
  z
    .array(
      hostName()
        .refine((value) => value.includes('.'), 'must be a DNS zone such as "zen.spamhaus.org"')
        .transform((value) => value.toLowerCase()),
    )
    .max(20, 'must have at most 20 zones')
    .transform((list) => [...new Set(list)])

/** How many backups are kept: the newest of each of so many hours, days, weeks and months. */
const keep = z
  .strictObject({
    hourly: z.int().min(0).max(1000).default(24),
    daily: z.int().min(0).max(1000).default(7),
    weekly: z.int().min(0).max(1000).default(4),
    monthly: z.int().min(0).max(1000).default(6),
  })
  .refine(
    ({ daily, hourly, monthly, weekly }) => hourly + daily + weekly + monthly > 0,
    'must keep at least one backup',
  )

/** An image of this size fits a form of the console and, as base64, a request of the API. */
const MOST_OF_A_PICTURE = 7 * 1024 * 1024

export const schema = z.strictObject({
  hostname: hostName().default(''),
  data_dir: z.string().min(1).default('/var/lib/postrider'),
  regions: z
    .array(z.string().regex(/^[a-z0-9-]{1,32}$/, 'must consist of lower-case letters, digits and hyphens'))
    .min(1)
    .default(['default']),
  http: section({
    listen: endpoint().prefault('127.0.0.1:8025'),
    tls_listen: z.array(endpoint()).default([]),
    public_url: publicUrl().prefault(''),
    trusted_proxies: z.array(network()).default([]),
  }),
  smtp: section({
    listen: z.array(endpoint()).prefault(['[::]:25', '0.0.0.0:25']),
    tls_cert: text().default(''),
    tls_key: text().default(''),
    max_connections: z.int().min(1).max(10_000).default(1000),
    max_connections_per_address: z.int().min(1).max(10_000).default(50),
  }),
  submission: section({
    listen: z.array(endpoint()).default([]),
    tls_listen: z.array(endpoint()).default([]),
    max_connections: z.int().min(1).max(10_000).default(1000),
    max_connections_per_address: z.int().min(1).max(10_000).default(50),
    max_recipients: z.int().min(1).max(1000).default(100),
  }),
  tls: section({
    cert: text().default(''),
    key: text().default(''),
    ca_file: text().default(''),
  }),
  acme: section({
    enabled: z.boolean().default(false),
    directory: secureUrl().prefault('https://acme-v02.api.letsencrypt.org/directory'),
    email: mailAddress(),
    accept_terms: z.boolean().default(false),
    listen: z.array(endpoint()).prefault(['[::]:80', '0.0.0.0:80']),
    ca_file: text().default(''),
    names: z.array(hostName()).default([]),
    eab_kid: text().default(''),
    eab_key_file: text().default(''),
  }),
  inbound: section({
    max_message_bytes: more(size()).prefault('40MB'),
    clamav: text().default(''),
  }),
  images: section({
    max_bytes: more(size())
      .refine((value) => value <= MOST_OF_A_PICTURE, 'must be at most "7MB"')
      .prefault('5MB'),
    account_bytes: size().prefault('1GB'),
  }),
  dns: section({
    servers: z.array(addressEndpoint()).default([]),
    trusted: z.array(z.union([z.ipv4(), z.ipv6()], 'must be an IP address')).default([]),
  }),
  delivery: section({
    port: port().default(25),
    source: z.array(sourceAddress()).default([]),
    sources: z.array(source).default([]),
    retry: z.array(duration()).min(1).prefault(['5m', '15m', '30m', '1h', '2h', '4h', '6h']),
    lifetime: more(duration()).prefault('5d'),
    max_connections: z.int().min(1).max(10_000).default(200),
    dane: z.boolean().default(true),
    routes: z.array(route).default([]),
    shaping: text().default(''),
  }),
  warmup: section({
    enabled: z.boolean().default(true),
    transactional_overflow: z.enum(['send', 'relay', 'wait']).default('send'),
    transactional_overflow_factor: z.int().min(0).max(1000).default(5),
    bulk_overflow: z.enum(['wait', 'relay']).default('wait'),
    route: text().default(''),
    private: z.boolean().default(false),
  }),
  network: section({ allow_private: z.array(network()).default([]) }),
  webhooks: section({
    retry: z.array(duration()).min(1).prefault(['5s', '5m', '30m', '2h', '5h', '10h', '14h', '20h', '24h']),
    probe: z.array(duration()).min(1).prefault(['5s', '10s', '20s', '40s', '80s', '160s', '320s']),
    timeout: more(duration()).prefault('15s'),
    ca_file: text().default(''),
  }),
  domains: section({ verification_window: more(duration()).prefault('72h') }),
  api: section({
    rate_limit: z.int().min(0).default(20),
    rate_burst: z.int().min(1).default(100),
  }),
  compatibility: section({
    mailgun: z.boolean().default(true),
    resend: z.boolean().default(true),
  }),
  oauth: section({ redirect_origins: z.array(redirectOrigin()).default(['http://127.0.0.1', 'http://localhost']) }),
  plans: z
    .record(z.string().regex(/^[a-z0-9_-]{1,32}$/), plan)
    .default({ growth: { included_volume: 100_000, branded_tracking: true } }),
  retention: section({
    outbound_bodies: duration().prefault('30d'),
    events: duration().prefault('90d'),
    inbound: duration().prefault('0'),
    reports: duration().prefault('400d'),
    report_messages: duration().prefault('30d'),
  }),
  reports: section({ unauthenticated: z.enum(['keep', 'drop']).default('keep') }),
  backup: section({
    schedule: cron().default('0 2 * * *'),
    to: z
      .array(backupTarget())
      .max(10, 'must have at most 10 destinations')
      .refine((list) => new Set(list).size === list.length, 'must not repeat a destination')
      .default([]),
    keep: keep.prefault({}),
    late_after: duration().prefault('0'),
    recipients: z
      .array(text().regex(/^age1[a-z0-9]{58}$/, 'must be an age public key; "postrider backup key" creates one'))
      .max(20, 'must have at most 20 public keys')
      .default([]),
    bandwidth: size()
      .refine((value) => value === 0 || value >= 16 * 1024, 'must be "0" (no limit) or at least "16KB" (per second)')
      .prefault('0'),
    s3: section({
      endpoint: text().default(''),
      region: text().default('us-east-1'),
      style: z.enum(['path', 'host']).default('path'),
      key_file: text().default(''),
    }),
    drill: z.enum(['never', 'daily', 'weekly', 'monthly']).default('weekly'),
    identity_file: text().default(''),
  }),
  signup: section(signupSettings),
  campaigns: section({ brake_bounces: rate().default(0.05), brake_complaints: rate().default(0.003) }),
  privacy: section({
    ledger_copy: text().default(''),
    recipient_requests: z.enum(['ask', 'automatic']).default('ask'),
  }),
  workers: section({ count: z.int().min(0).max(256).default(0) }),
  storage: section({ reserve: size().prefault('500MB') }),
  metrics: section({
    token: text()
      .refine((value) => value === '' || /^[\w.~+/-]{16,}=*$/.test(value), 'must have at least 16 letters and digits')
      .default(''),
  }),
  notices: section({ from: mailbox(), operator: mailAddress() }),
  watch: section({
    interval: duration()
      .refine((value) => value === 0 || value >= HOUR, 'must be "0" (never) or at least "1h"')
      .prefault('6h'),
    lists: zones().default(['zen.spamhaus.org', 'bl.spamcop.net', 'b.barracudacentral.org', 'psbl.surriel.com']),
    domain_lists: zones().default(['dbl.spamhaus.org']),
  }),
  log: section({
    level: z.enum(LEVELS).default('info'),
    deliveries: z.enum(['all', 'failures', 'none']).default('all'),
  }),
})

/** The configuration with every key present: durations in ms, sizes in bytes, endpoints as {host, port}. */
export type Config = z.output<typeof schema>
/** The configuration as a file or a test gives it: any part of the keys. */
export type ConfigInput = z.input<typeof schema>

/** The file of extra certificate authorities, or ''. Its name in 0.1.0 was webhooks.ca_file, which still works. */
export const authoritiesOf = ({ tls, webhooks }: Pick<Config, 'tls' | 'webhooks'>): string =>
  tls.ca_file || webhooks.ca_file

/** The hosts of a route with their ports, or "mx:NAME" as the only host. */
export const hostsOf = ({ host, hosts, port: usual }: Pick<z.output<typeof route>, 'host' | 'hosts' | 'port'>) =>
  hosts.length === 0 ? [{ host, port: usual }] : hosts.map((each) => ({ host: each.host, port: each.port ?? usual }))

/** Names that are used where the configuration does not set them, by its data directory. */
type KnownDefaults = (dataDir: string) => { hostname?: string; public_url?: string }

/** Checks a configuration given as an object (tests, the sandbox). Throws an OperatorError. */
export function parseConfig(
  input: unknown,
  where: (path: readonly PropertyKey[]) => string = () => 'the configuration',
  known: KnownDefaults = () => ({}),
): Config {
  const result = schema.safeParse(input)
  if (!result.success) throw wrongValue(result.error, where)
  const config = result.data
  checkRoutes(config, where)
  checkTargets(config, where)
  const twice = repeatedSource(config.delivery)
  if (twice)
    throw new OperatorError(
      `${where(twice.path)}: the sending IP address ${twice.address} is listed twice; remove one.`,
    )
  const names = known(config.data_dir)
  config.http.public_url ||= names.public_url ?? urlOf(config.http.listen)
  return { ...config, hostname: (config.hostname || names.hostname || hostname()).toLowerCase() }
}

/** The URL of a listener for a browser on this machine. A port that the system chooses is not known yet. */
function urlOf({ host, port: at }: Config['http']['listen']): string {
  const reached = formatEndpoint(reachedAt(host), at === 0 ? 8025 : at)
  return new URL(`http://${reached}`).origin
}

/** Throws an OperatorError when a route can never be used, or has a host twice. */
function checkRoutes({ delivery: { routes } }: Config, where: (path: readonly PropertyKey[]) => string): void {
  for (const [index, route] of routes.entries()) {
    const path = ['delivery', 'routes', index]
    if ((route.host === '') === (route.hosts.length === 0))
      throw new OperatorError(
        route.host === ''
          ? `${where([...path, 'host'])}: "delivery.routes.${index}.host" is missing; add it, or "hosts" for several.`
          : `${where([...path, 'hosts'])}: the route has both "host" and "hosts"; remove one.`,
      )
    const names = hostsOf(route).map(({ host, port: at }) => formatEndpoint(host, at))
    const repeated = names.find((name, at) => names.indexOf(name) < at)
    if (repeated !== undefined)
      throw new OperatorError(`${where([...path, 'hosts'])}: the host ${repeated} is listed twice; remove one.`)
  }
  const idle = routes.findIndex(({ domains, name }) => domains.length === 0 && name === '')
  if (idle >= 0)
    throw new OperatorError(
      `${where(['delivery', 'routes', idle, 'host'])}: the route has neither "domains" nor a "name"; add "domains", or a "name" for "warmup.route".`,
    )
  const twice = routes.findIndex(({ name }, at) => name !== '' && routes.findIndex((other) => other.name === name) < at)
  if (twice >= 0)
    throw new OperatorError(
      `${where(['delivery', 'routes', twice, 'name'])}: two routes have the name "${routes[twice]?.name}"; rename one.`,
    )
}

/** Throws an OperatorError when a target for backups can never be opened. */
function checkTargets({ backup }: Config, where: (path: readonly PropertyKey[]) => string): void {
  for (const [index, target] of backup.to.entries()) {
    const needed = missingSetting(target, backup.s3)
    if (needed !== undefined)
      throw new OperatorError(
        `${where(['backup', 'to', index])}: "${titlesOf([target])[0]}" needs "backup.${needed}"; set it as described in docs/backup.md.`,
      )
  }
}

/** The first error of a file as one sentence with its position. */
export function wrongValue(error: z.ZodError, where: (path: readonly PropertyKey[]) => string): OperatorError {
  const issue = firstIssue(error)
  if (issue.code === 'unrecognized_keys') {
    const key = [...issue.path, ...issue.keys.slice(0, 1)]
    return new OperatorError(`${where(key)}: "${key.join('.')}" is not a setting; remove it or correct its name.`)
  }
  const missing = issue.code === 'invalid_type' && issue.message.endsWith('received undefined')
  return new OperatorError(
    `${where(issue.path)}: "${issue.path.join('.')}" ${missing ? 'is missing' : sentence(issue.message)}.`,
  )
}

/**
 * Reads the file (defaults when `file` is undefined), applies the environment variables, and checks the result. Throws
 * an OperatorError: one sentence with file, line and key.
 */
export function loadConfig(file: string | undefined, environment: Environment = {}, known?: KnownDefaults): Config {
  return configFrom(file === undefined ? '' : readConfig(file), file, environment, known)
}

/** As `loadConfig`, with the text of the file: one that is still to be written. */
export function configFrom(
  source: string,
  file: string | undefined,
  environment: Environment,
  known?: KnownDefaults,
): Config {
  const tree = parseToml(source, file ?? 'the configuration')
  const fromEnvironment = applyEnvironment(tree, environment, defaults())
  const where = (path: readonly PropertyKey[]): string => {
    const [variable] = path.flatMap((_, end) => fromEnvironment.get(path.slice(0, end + 1).join('.')) ?? [])
    return variable ?? (file === undefined ? 'the configuration' : `${file}:${lineOf(source, path)}`)
  }
  const dataDir = (tree['data_dir'] ??= instanceDataDir(file))
  if (typeof dataDir === 'string' && dataDir !== '') {
    const place = dataDirBeside(fromEnvironment.has('data_dir') ? undefined : file, dataDir)
    if (place === undefined)
      throw new OperatorError(
        `${where(['data_dir'])}: "data_dir" must be an absolute path, such as "${resolve(dataDir)}".`,
      )
    tree['data_dir'] = place
  }
  return parseConfig(tree, where, known)
}

function readConfig(file: string): string {
  try {
    return readNamed(file).toString()
  } catch (thrown) {
    const instance = instanceOf(file)
    if (instance !== undefined && codeOf(thrown) === 'ENOENT')
      throw new OperatorError(
        `There is no instance "${instance}" (${file} is missing); run "postrider init" to create it.`,
      )
    throw new OperatorError(
      `The configuration file ${file} cannot be read (${whyUnread(thrown)}); check its path and permissions.`,
    )
  }
}

const sentence = (message: string): string => {
  const words = issueWords(message)
  return (words.startsWith('must ') ? words : `is invalid: ${words}`).replace(/\.$/, '')
}

const defaults = (): Config => schema.parse({})

/** Throws an OperatorError for a variable POSTRIDER_... that has no meaning. */
export const demandKnownVariables = (environment: Environment): void => demandKnown(environment, defaults())

/** The line (from 1) of a key, otherwise of its section, otherwise 1. */
export function lineOf(source: string, path: readonly PropertyKey[]): number {
  const keys = path.filter((key) => typeof key === 'string')
  // In an array of tables ([[delivery.routes]]) the path's number selects the table. An element of a list has the line
  // of its key.
  const at = path.findIndex((key) => typeof key === 'number')
  const repeated = at >= 0 && at < path.length - 1 ? path.slice(0, at).join('.') : undefined
  let left = repeated === undefined ? 0 : (path[at] as number)
  let section: string[] = []
  let line = 1
  let depth = 0
  for (const [index, text] of source.split('\n').entries()) {
    const [, header] = /^\s*\[\[?([^\]]+)\]\]?\s*(?:#.*)?$/.exec(text) ?? []
    if (header !== undefined) {
      section = namesOf(header)
      if (section.join('.') === repeated && left-- !== 0) section = ['']
    }
    const [, key] = (header === undefined && /^\s*((?:"[^"]*"|[\w.\s-])+?)\s*=/.exec(text)) || []
    const here = key === undefined ? section : [...section, ...namesOf(key)]
    // The deepest match so far: the key itself, an inline table, or its section.
    if (here.length <= depth || here.some((name, level) => name !== keys[level])) continue
    depth = here.length
    line = index + 1
  }
  return line
}

/** The parts of a dotted key, quoted or bare. */
const namesOf = (dotted: string): string[] => dotted.split('.').map((name) => name.trim().replace(/^"(.*)"$/, '$1'))
