// Every address on which the server listens, opened together: HTTP, HTTPS, inbound SMTP and submission.
import type { Certificate } from '../base/certificate.ts'
import { formatEndpoint } from '../base/network.ts'
import { createClearText, type ClearTextDeps } from '../http/clear-text.ts'
import { listen, type HttpListener } from '../http/listen.ts'
import { Places } from '../http/places.ts'
import type { App } from '../http/server.ts'
import { openEach, type ListenAddress, type Opening } from './ipv4-ipv6.ts'
import type { Inbound } from './inbound.ts'
import { openSubmission, type SubmissionParts } from './submission.ts'

export interface Endpoint {
  host: string
  port: number
}

export interface DoorParts extends SubmissionParts, Pick<Opening, 'sandbox'> {
  app: App
  inbound: Inbound
  /** The certificate for an authority that checks a name during the TLS handshake. */
  proofFor: (name: string) => Certificate | undefined
  /** The answers of the listeners without TLS that are separate from `http.listen` (port 80). */
  clearText: ClearTextDeps
}

export interface Doors {
  http: Endpoint
  https: Endpoint[]
  smtp: Endpoint[]
  /** `submission`: with STARTTLS. `submissions`: with TLS from the first byte. */
  submission: Endpoint[]
  submissions: Endpoint[]
  stop(patience: number): Promise<void>
}

/** Opens all listeners. If one fails, closes the others and throws an OperatorError with the address and its key. */
export async function openDoors(parts: DoorParts): Promise<Doors> {
  const { app, certificates, clearText, clock, config, inbound, sandbox } = parts
  const places = new Places(config.http)
  const closing: ((patience: number) => Promise<void>)[] = []
  const stop = async (patience: number): Promise<void> => {
    await Promise.all(closing.map((close) => close(patience)))
  }
  const web = async (endpoint: ListenAddress, key: string, tls: boolean): Promise<HttpListener> => {
    const shown = tls && {
      certificate: certificates.first('https'),
      contextOf: (host: string) => certificates.contextOf(host),
      proofFor: parts.proofFor,
    }
    const listener = await listen(app, endpoint, { clock, key, places, tls: shown || undefined })
    if (tls) certificates.follow('https', (certificate) => listener.renew(certificate))
    closing.push((patience) => listener.close(patience))
    return listener
  }
  try {
    const httpKey = sandbox?.http?.option ?? 'http.listen'
    const [http] = await openEach([config.http.listen], 'http', parts, (address) => web(address, httpKey, false))
    const https = await openEach(config.http.tls_listen, 'https', parts, (address) =>
      web(address, 'http.tls_listen', true),
    )
    const { acme, http: web80 } = config
    if (acme.enabled || web80.tls_listen.length > 0)
      await openEach(acme.listen, 'http-plain', parts, async (address) => {
        const listener = await listen(createClearText(clearText), address, { clock, key: 'acme.listen', places })
        closing.push((patience) => listener.close(patience))
      })
    // Opened before the queue starts: mail to this server's own domains is delivered to this listener.
    closing.push((patience) => inbound.stop(patience))
    await inbound.listen(parts)
    const submission = await openSubmission(parts)
    closing.push((patience) => submission.stop(patience))
    return {
      http: endpointOf(http!),
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
