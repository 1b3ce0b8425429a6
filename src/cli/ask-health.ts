// What a running server answers at /health, in few octets and little time. It imports nothing heavy: the executable
// answers `postrider health` before the rest of the program is evaluated (bin/postrider.ts).
import { get as getPlain, type IncomingMessage } from 'node:http'
import { placeOfServer, type NamedConfig } from '../base/config-file.ts'
import { codeOf } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import { formatEndpoint, parseEndpoint, reachedAt } from '../base/network.ts'
import { servedAt } from '../base/served.ts'
import { answer, complain, type Terminal } from '../commands/terminal.ts'

/** Defaults of the configuration: data_dir and http.listen. */
const DATA_DIR = '/var/lib/postrider'
const LISTEN = '127.0.0.1:8025'

/** An answer after more ms than this is none. */
const PATIENCE = 5000
const MOST_OCTETS = 64 * 1024

export interface Health {
  status: 'ok' | 'degraded' | 'down'
  reasons: string[]
  url: string
}

/** The URL to ask: of a base URL that is given, else of the server of this configuration. Undefined: not a URL. */
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
  const said = (status: Health['status'], ...reasons: string[]): Health => ({ status, reasons, url: url.href })
  try {
    const { body, code } = await fetched(url)
    const read = objectOf(body)
    const reasons = [read['reasons']].flat().filter((reason) => typeof reason === 'string')
    if (code === 200 && read['status'] === 'ok') return said('ok')
    if (code === 200 && read['status'] === 'degraded') return said('degraded', ...reasons)
    return said('down', ...reasons, `${url.href} answers HTTP ${code}, and not that it is healthy.`)
  } catch (thrown) {
    return said('down', unasked(url, thrown))
  }
}

/** Why there is no answer of HTTP. */
function unasked({ href }: URL, thrown: unknown): string {
  const code = codeOf(thrown)
  if (/^(?:EPROTO|ERR_SSL_)/.test(code))
    return `what listens at ${href} speaks no TLS that is known here (${code}); ask the plain port by "http://".`
  if (code.startsWith('HPE_'))
    return `what listens at ${href} speaks no HTTP (${code}); a port with TLS is asked by "https://".`
  if (/CERT|UNABLE_TO|SIGNATURE/.test(code))
    return `the certificate at ${href} is not trusted here, or is for another name (${code}); name the server as its certificate does.`
  const why = thrown instanceof Error && thrown.name === 'AbortError' ? `after ${PATIENCE / 1000} s` : code
  return `nothing answers at ${href} (${why}); start the server, or name its address with --url.`
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
    if (body.length > MOST_OCTETS) break
  }
  return { code: response.statusCode, body }
}

/** Prints it; returns the exit code. */
export function tellHealth(terminal: Terminal, health: Health): 0 | 1 {
  const { reasons, status } = health
  if (terminal.json || status === 'ok') answer(terminal, health, () => 'ok')
  if (status === 'ok') return 0
  complain(terminal, `${status}: ${reasons.join(' ')}`)
  return 1
}
