// Opens every listener of the server together: HTTP, HTTPS, SMTP, submission.
import { formatEndpoint } from '../base/network.ts'
import { createClearText, type ClearTextDeps } from '../api/clear-text.ts'
import { listen, type App, type HttpListener } from '../api/server.ts'
import type { Inbound } from './inbound.ts'
import { openSubmission, type SubmissionParts } from './submission.ts'

export interface Endpoint {
  host: string
  port: number
}

export interface DoorParts extends SubmissionParts {
  app: App
  inbound: Inbound
  /** The options that set the addresses: --http and --smtp of the sandbox. */
  keys: { http: string; smtp: string } | undefined
  /** The answers on ports without TLS, except `http.listen`. */
  clearText: ClearTextDeps
}

export interface Doors {
  http: Endpoint
  https: Endpoint[]
  smtp: Endpoint[]
  /** With STARTTLS, and with TLS from the first octet. */
  submission: Endpoint[]
  submissions: Endpoint[]
  stop(patience: number): Promise<void>
}

/** Opens all listeners, or none. Throws an OperatorError that names the address and its key. */
export async function openDoors(parts: DoorParts): Promise<Doors> {
  const { app, certificates, clearText, clock, config, inbound, keys } = parts
  const closing: ((patience: number) => Promise<void>)[] = []
  const stop = async (patience: number): Promise<void> => {
    await Promise.all(closing.map((close) => close(patience)))
  }
  const web = async (endpoint: Endpoint, key: string, tls: boolean): Promise<HttpListener> => {
    const shown = tls && {
      certificate: certificates.first('https'),
      contextOf: (host: string) => certificates.contextOf(host),
    }
    const listener = await listen(app, endpoint, clock, key, shown || undefined)
    if (tls) certificates.follow('https', (certificate) => listener.renew(certificate))
    closing.push((patience) => listener.close(patience))
    return listener
  }
  try {
    const http = await web(config.http.listen, keys?.http ?? 'http.listen', false)
    const https: HttpListener[] = []
    for (const endpoint of config.http.tls_listen) https.push(await web(endpoint, 'http.tls_listen', true))
    const { acme, http: web80 } = config
    if (acme.enabled || web80.tls_listen.length > 0)
      for (const endpoint of acme.listen) {
        const listener = await listen(createClearText(clearText), endpoint, clock, 'acme.listen')
        closing.push((patience) => listener.close(patience))
      }
    // Before the queue starts: mail for hosted domains is delivered to this listener.
    closing.push((patience) => inbound.stop(patience))
    await inbound.listen(keys?.smtp)
    const submission = await openSubmission(parts)
    closing.push((patience) => submission.stop(patience))
    return {
      http: endpointOf(http),
      https: https.map(endpointOf),
      smtp: inbound.listeners.map(endpointOf),
      submission: submission.listeners.map(endpointOf),
      submissions: submission.tlsListeners.map(endpointOf),
      stop,
    }
  } catch (thrown) {
    await stop(0)
    throw thrown
  }
}

const endpointOf = ({ host, port }: Endpoint): Endpoint => ({ host, port })

/** The addresses in the form of the ready line. HTTP and SMTP are always present. */
export function shownDoors(doors: Doors): Record<string, string | string[]> {
  const shown = (endpoints: readonly Endpoint[]): string[] =>
    endpoints.map(({ host, port }) => formatEndpoint(host, port))
  const optional = (['https', 'submission', 'submissions'] as const).filter((name) => doors[name].length > 0)
  return {
    http: formatEndpoint(doors.http.host, doors.http.port),
    ...Object.fromEntries(optional.map((name) => [name, shown(doors[name])])),
    smtp: shown(doors.smtp),
  }
}
