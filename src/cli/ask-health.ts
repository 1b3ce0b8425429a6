// Requests /health from a running server with little CPU time. It imports only light modules: the executable answers
// `postrider health` before the rest of the program is evaluated (bin/postrider.ts).
import { existsSync } from 'node:fs'
import { get as getPlain, type IncomingMessage } from 'node:http'
import type { Command } from 'commander'
import { findConfig, placeOfServer, type NamedConfig } from '../base/config-file.ts'
import { forLine, forTerminal } from '../base/clean-text.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import { formatEndpoint, parseEndpoint, reachedAt } from '../base/network.ts'
import { servedAt } from '../base/served.ts'
import { askStandby } from '../base/standby.ts'
import { isUnknown, machineOf, readServing, whyHeld } from '../store/serving.ts'
import type { Invocation } from '../views/command/open.ts'
import { answer, complain, type Terminal } from '../views/command/terminal.ts'

/** Defaults of the configuration: data_dir and http.listen. */
const DATA_DIR = '/var/lib/postrider'
const LISTEN = '127.0.0.1:8025'

/** The server must respond within this time (ms). */
const PATIENCE = 5000
const MAX_BODY = 64 * 1024

export interface Health {
  status: 'ok' | 'degraded' | 'down'
  reasons: string[]
  url: string
  /** Settings that a reload changed and that need a restart, absent without one. */
  restart_needed?: string[]
}

/** Returns the health URL of a base URL or of the configured server, or undefined if it is not a URL. */
export function healthUrl(base: string | undefined, named: NamedConfig): URL | undefined {
  const url = base ?? `http://${addressOf(named)}`
  const fits = URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)
  return fits ? new URL('/health', url) : undefined
}

function addressOf(named: NamedConfig): string {
  const { data_dir = DATA_DIR, listen = LISTEN } = placeOfServer(named)
  const { host, port } = servedAt(data_dir) ?? parseEndpoint(listen) ?? parseEndpoint(LISTEN)!
  return formatEndpoint(reachedAt(host), port)
}

export async function askHealth(url: URL): Promise<Health> {
  const healthOf = (status: Health['status'], ...reasons: string[]): Health => ({ status, reasons, url: url.href })
  try {
    const { body, code } = await fetched(url)
    const read = objectOf(body)
    const texts = (name: string): string[] => [read[name]].flat().filter((each) => typeof each === 'string')
    const [reasons, restart] = [texts('reasons'), texts('restart_needed')]
    const more = restart.length > 0 ? { restart_needed: restart } : {}
    if (code === 200 && read['status'] === 'ok') return { ...healthOf('ok'), ...more }
    if (code === 200 && read['status'] === 'degraded') return { ...healthOf('degraded', ...reasons), ...more }
    return healthOf('down', ...reasons, `${url.href} returned HTTP ${code} instead of a health report.`)
  } catch (thrown) {
    return healthOf('down', unasked(url, thrown))
  }
}

/** Returns why there is no HTTP response. */
function unasked({ href }: URL, thrown: unknown): string {
  const code = codeOf(thrown)
  if (/^(?:EPROTO|ERR_SSL_)/.test(code))
    return `the TLS handshake with ${href} failed (${code}); use "http://" for a port without TLS.`
  if (code.startsWith('HPE_')) return `${href} did not return HTTP (${code}); use "https://" for a port with TLS.`
  if (/CERT|UNABLE_TO|SIGNATURE/.test(code))
    return `the certificate of ${href} is not trusted or is for another name (${code}); use the host name in the certificate.`
  const why = thrown instanceof Error && thrown.name === 'AbortError' ? `after ${PATIENCE / 1000} s` : code
  return `no response from ${href} (${why}); start the server, or set its address with --url.`
}

function objectOf(body: string): Record<string, unknown> {
  try {
    const read: unknown = JSON.parse(body)
    return isObject(read) ? read : {}
  } catch {
    return {}
  }
}

async function fetched(url: URL): Promise<{ code: number | undefined; body: string }> {
  const get = url.protocol === 'https:' ? (await import('node:https')).get : getPlain
  const signal = AbortSignal.timeout(PATIENCE)
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url, { agent: false, headers: { Accept: 'application/json' }, signal }, resolve).on('error', reject)
  })
  let body = ''
  for await (const chunk of response.setEncoding('utf8')) {
    body += chunk
    if (body.length > MAX_BODY) break
  }
  return { code: response.statusCode, body }
}

/** Prints the status and returns the exit code. */
export function tellHealth(terminal: Terminal, health: Health): 0 | 1 {
  const { reasons, restart_needed: restart = [], status } = health
  const later = restart.length > 0 ? ` (restart needed for ${restart.map(forTerminal).join(', ')})` : ''
  if (terminal.json || status === 'ok') answer(terminal, health, () => `ok${later}`)
  if (status === 'ok') return 0
  complain(terminal, `${status}: ${reasons.join(' ')}${later}`)
  return 1
}

export interface ServingState {
  state: 'serving' | 'standby' | 'down'
  reason: string | null
}

/** Whether this machine of a failover pair serves, or would serve as soon as the volume is here. */
export async function askServing(named: NamedConfig): Promise<ServingState> {
  const { data_dir: dataDir = DATA_DIR } = placeOfServer(named)
  const found = readServing(dataDir)
  const url = healthUrl(undefined, named)
  const down = (reason: string): ServingState => ({ state: 'down', reason })
  const file = findConfig(named)
  // Without its file, the state of another installation would be reported.
  if (file !== undefined && !existsSync(file)) return down(`${file} does not exist; check --config.`)
  if (url && found && !found.stopped && !isUnknown(found) && found.machine === machineOf(dataDir)) {
    const { reasons, status } = await askHealth(url)
    if (status === 'down') return down(reasons.join(' '))
    return { state: 'serving', reason: found.held ? whyHeld(found.held) : null }
  }
  const standby = await askStandby(dataDir)
  if (standby) return { state: standby.ready ? 'standby' : 'down', reason: standby.reason }
  return down(
    found && isUnknown(found)
      ? `serving.json in ${dataDir} cannot be read; run this command as root or as the user of the server.`
      : `No server and no standby runs on this machine for ${dataDir}; start "postrider standby".`,
  )
}

const SERVING_CODES = { serving: 0, standby: 2, down: 1 } as const

/** Prints the state and returns the exit code. */
export function tellServing(terminal: Terminal, serving: ServingState): 0 | 1 | 2 {
  const { reason, state } = serving
  if (terminal.json || state !== 'down')
    answer(terminal, serving, () => [state, forLine(reason ?? '') || []].flat().join(': '))
  if (state === 'down') complain(terminal, `down: ${forLine(reason ?? '')}`)
  return SERVING_CODES[state]
}

/** `postrider health`, for the command lines that quick.ts does not answer. */
export function healthCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('health')
    .description('check the running server (exit code 0: healthy, 1: not)')
    .option('--url <url>', 'base URL of the server (default: from the configuration)')
    .option('--serving', 'check this machine of a pair (0: serves, 2: stands by, 1: neither)')
    .action(async ({ serving, url: base }: { serving?: true; url?: string }) => {
      const now = invocation()
      if (serving && base !== undefined) throw new OperatorError('Use either --serving or --url.')
      if (serving) return void (process.exitCode = tellServing(now.terminal, await askServing(now)))
      const url = healthUrl(base, now)
      if (!url) throw new OperatorError(`"${base}" is not a URL; use one such as "http://127.0.0.1:8025".`)
      process.exitCode = tellHealth(now.terminal, await askHealth(url))
    })
}
