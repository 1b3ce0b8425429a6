// Validates all settings of a server together. A start, `serve --check` and a reload (SIGHUP) call `demandSettings`, so
// they reject the same settings. `takeOver` applies a reload. Settings that are read only at the start keep their value
// and are returned.
import { accessSync, constants } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { certificatesIn } from '../acme/certificates.ts'
import { systemClock } from '../base/clock.ts'
import { authoritiesOf, hostsOf, type Config } from '../base/config.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { formatEndpoint, isBeside } from '../base/network.ts'
import { Ways } from '../delivery/queue/ways.ts'
import { listen, listenError } from '../http/listen.ts'
import { readShaping } from '../smtp/shaping.ts'
import { authoritiesIn } from '../webhooks/post.ts'
import { acmeSettings } from './acme.ts'

/**
 * Throws an OperatorError for the first setting with which a server does not start. Returns a sentence for each file
 * that cannot be read at present, and without which it starts. `sandbox`: its listeners find other ports themselves.
 */
export function demandSettings(config: Config, sandbox = false): string[] {
  readShaping(config.delivery.shaping)
  new Ways(config).check()
  authoritiesIn(authoritiesOf(config))
  acmeSettings(config)
  if (!sandbox) demandPorts(config)
  return [
    ...certificatesIn(config).map(({ message }) => message),
    ...unreadableRelays(config).map(
      ({ error, host, password_file }) =>
        `The password file ${password_file} of the relay ${host} cannot be read (${error}); check its permissions. Until then its email stays queued.`,
    ),
  ]
}

/** The relays whose password file is unreadable. Their mail is queued until it is readable. */
export const unreadableRelays = ({ delivery }: Config): { host: string; password_file: string; error: string }[] =>
  delivery.routes.flatMap(({ password_file, ...route }) => {
    try {
      if (password_file !== '') accessSync(password_file, constants.R_OK)
      return []
    } catch (thrown) {
      const names = hostsOf(route).map(({ host }) => host)
      return [{ host: names.join(', '), password_file, error: codeOf(thrown) }]
    }
  })

interface Listener {
  /** The setting. */
  key: string
  host: string
  port: number
  /** "::" without IPv4. */
  alone: boolean
}

/** Returns the addresses that a server opens, in the order in which it opens them. */
export function listenersOf({ acme, http, smtp, submission }: Config): Listener[] {
  const settings = [
    { key: 'http.listen', list: [http.listen] },
    { key: 'http.tls_listen', list: http.tls_listen },
    { key: 'acme.listen', list: acme.enabled || http.tls_listen.length > 0 ? acme.listen : [] },
    { key: 'smtp.listen', list: smtp.listen },
    { key: 'submission.listen', list: submission.listen },
    { key: 'submission.tls_listen', list: submission.tls_listen },
  ]
  return settings.flatMap(({ key, list }) =>
    list.map((endpoint) => ({ key, ...endpoint, alone: isBeside(endpoint, list) })),
  )
}

/** Returns a listener of each of two servers that cannot both be open on one machine, or undefined. */
export function sharedListener(config: Config, other: Config): [own: Listener, other: Listener] | undefined {
  const others = listenersOf(other)
  return listenersOf(config).flatMap((one): [Listener, Listener][] => {
    const same = others.find((each) => overlap(one, each))
    return same ? [[one, same]] : []
  })[0]
}

/** Throws an OperatorError when two listeners have the same address and port. */
function demandPorts(config: Config): void {
  const all = listenersOf(config)
  for (const [index, one] of all.entries()) {
    const other = all.slice(0, index).find((each) => overlap(one, each))
    if (other)
      throw new OperatorError(
        `"${one.key}" and "${other.key}" both listen on port ${one.port} (${formatEndpoint(one.host, one.port)}, ${formatEndpoint(other.host, other.port)}); change the port of one.`,
      )
  }
}

function overlap(one: Listener, other: Listener): boolean {
  if (one.port === 0 || one.port !== other.port) return false
  const covers = (wide: Listener, narrow: Listener): boolean =>
    wide.host === narrow.host ||
    (wide.host === '0.0.0.0' && !narrow.host.includes(':')) ||
    (wide.host === '::' && (!wide.alone || narrow.host.includes(':')))
  return covers(one, other) || covers(other, one)
}

/**
 * Throws an OperatorError for a listener whose address this machine does not have. It opens a port that the system
 * chooses: the configured one may belong to the server that is running.
 */
export async function demandAddresses(config: Config): Promise<void> {
  const nothing = { fetch: () => new Response() }
  for (const { host, key, port } of listenersOf(config).filter((each) => each.host !== '::')) {
    const opening = listen(nothing, { host, port: 0 }, { clock: systemClock })
    const opened = await opening.catch((thrown: Error) => {
      throw listenError(thrown.cause, key, { host, port })
    })
    await opened.close(0)
  }
}

/** When a change of a setting takes effect. */
type TakesEffect = 'live' | 'restart'

/** A nested section is one setting here: `backup.s3`. */
export const TAKES_EFFECT: {
  [Section in keyof Config]:
    | TakesEffect
    | (Config[Section] extends object ? Record<keyof Config[Section], TakesEffect> : never)
} = {
  // Banner, EHLO and sources have it.
  hostname: 'restart',
  data_dir: 'restart',
  regions: 'live',
  http: { listen: 'restart', tls_listen: 'restart', public_url: 'live', trusted_proxies: 'restart' },
  smtp: {
    listen: 'restart',
    tls_cert: 'live',
    tls_key: 'live',
    max_connections: 'restart',
    max_connections_per_address: 'restart',
  },
  submission: 'restart',
  tls: { cert: 'live', key: 'live', ca_file: 'restart' },
  acme: {
    enabled: 'restart',
    directory: 'restart',
    email: 'restart',
    accept_terms: 'restart',
    listen: 'restart',
    ca_file: 'restart',
    names: 'live',
    eab_kid: 'restart',
    eab_key_file: 'restart',
  },
  inbound: { max_message_bytes: 'restart', clamav: 'live' },
  images: 'live',
  dns: 'restart',
  delivery: {
    port: 'live',
    source: 'restart',
    sources: 'restart',
    retry: 'live',
    lifetime: 'live',
    max_connections: 'live',
    dane: 'restart',
    routes: 'live',
    shaping: 'live',
  },
  warmup: 'live',
  network: 'restart',
  webhooks: { retry: 'live', probe: 'live', timeout: 'restart', ca_file: 'restart' },
  domains: 'live',
  api: 'restart',
  compatibility: 'live',
  oauth: 'live',
  plans: 'live',
  retention: 'live',
  reports: 'live',
  backup: 'live',
  signup: 'live',
  campaigns: 'live',
  // The copy is brought up to date at the start.
  privacy: { ledger_copy: 'restart', recipient_requests: 'live' },
  workers: 'restart',
  storage: 'live',
  metrics: 'live',
  notices: 'live',
  watch: 'live',
  log: { level: 'restart', deliveries: 'live' },
}

/**
 * The configuration after a reload: `fresh`, but with the former value of each setting that needs a restart. `waiting`
 * has the names of those that differ, such as "smtp.listen".
 */
export function takeOver(former: Config, fresh: Config): { config: Config; waiting: string[] } {
  const waiting: string[] = []
  const at = (config: Config, section: string): unknown => config[section as keyof Config]
  const kept = (name: string, effect: TakesEffect, was: unknown, is: unknown): unknown => {
    // An empty public URL is that of the listener.
    const follows = name === 'http.public_url' && waiting.includes('http.listen')
    if ((effect === 'live' && !follows) || isDeepStrictEqual(was, is)) return is
    waiting.push(name)
    return was
  }
  const config = Object.entries(TAKES_EFFECT).map(([section, effects]) => {
    const [was, is] = [at(former, section), at(fresh, section)]
    if (typeof is !== 'object' || is === null || Array.isArray(is))
      return [section, kept(section, effects as TakesEffect, was, is)]
    const values = Object.entries(is).map(([key, value]) => [
      key,
      kept(
        `${section}.${key}`,
        typeof effects === 'string' ? effects : ((effects as Record<string, TakesEffect>)[key] ?? 'restart'),
        (was as Record<string, unknown>)[key],
        value,
      ),
    ])
    return [section, Object.fromEntries(values) as unknown]
  })
  return { config: Object.fromEntries(config) as Config, waiting }
}
