// The listener that serves the HTTP application on a socket, with limits of connections, time and rate (D113).
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { SecureContext, TlsOptions, TLSSocket } from 'node:tls'
import { getRequestListener } from '@hono/node-server'
import { ACME_TLS } from '../acme/alpn.ts'
import type { Certificate } from '../base/certificate.ts'
import { SECOND, type Clock } from '../base/clock.ts'
import { inContainer, LOW_PORTS } from '../base/container.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { formatEndpoint, portOf } from '../base/network.ts'
import { asCaller } from '../base/ownership.ts'
import { TLS_POLICY } from '../base/tls.ts'
import { Connections, continueWhenRead, MOST_HEADER } from './connection.ts'
import type { Places } from './places.ts'
import type { App } from './server.ts'

export interface HttpListener {
  host: string
  port: number
  /** Uses another certificate for new connections; for HTTPS. */
  renew(certificate: Certificate): void
  /** Accepts no new connections; waits at most `patience` ms for requests in progress. */
  close(patience: number): Promise<void>
}

/**
 * Milliseconds for a request's header, from the moment that the connection is accepted (so a silent one is closed), and
 * for the whole request with its body; how often Node looks.
 */
const HEADER_TIME = 15 * SECOND
const REQUEST_TIME = 600 * SECOND
const CHECK_EVERY = 5 * SECOND
const LIMITS = {
  maxHeaderSize: MOST_HEADER,
  headersTimeout: HEADER_TIME,
  requestTimeout: REQUEST_TIME,
  connectionsCheckingInterval: CHECK_EVERY,
  keepAliveTimeout: 65 * SECOND,
}
/** The least rate of a request: so many octets in so many milliseconds, or the connection is closed. */
const LEAST_OCTETS = 10_000
const LEAST_TIME = 20 * SECOND

/** The certificates for TLS handshakes. */
export interface ShownCertificate {
  certificate: Certificate
  /** The certificate for a host that the client names (SNI); undefined: the default certificate. */
  contextOf: (host: string) => SecureContext | undefined
  /** The certificate that proves a name to a certificate authority (RFC 8737). */
  proofFor?: (host: string) => Certificate | undefined
}

/**
 * Only a client that offers acme-tls/1 and nothing else gets the proof certificate. All other clients get HTTP/1.1 or
 * no protocol (RFC 7301 §3.2).
 */
const protocolOf = ({ proofFor }: ShownCertificate): TlsOptions['ALPNCallback'] =>
  function agree(this: TLSSocket, { protocols, servername }) {
    const proof = protocols.length === 1 && protocols[0] === ACME_TLS ? proofFor?.(servername) : undefined
    if (proof) this.setKeyCert(proof)
    return protocols.find((each) => each === (proof ? ACME_TLS : 'http/1.1'))
  }

/**
 * Closes the connection of a request whose body arrives slower than the least rate, or not at all. A busy server is not
 * a slow client: what has arrived meanwhile is read, and looked at, before the connection is closed.
 */
function holdToRate(request: IncomingMessage, clock: Clock): void {
  if (request.headers['content-length'] === undefined && request.headers['transfer-encoding'] === undefined) return
  const { socket } = request
  let seen = socket.bytesRead
  const isSlow = (): boolean => !request.complete && socket.bytesRead - seen < LEAST_OCTETS
  const look = (): void => {
    // Two turns of the event loop: what has arrived while this process was busy is read first.
    if (isSlow()) return void setImmediate(() => setImmediate(close))
    seen = socket.bytesRead
    if (!request.complete) next = clock.wake(clock.now() + LEAST_TIME, look)
  }
  const close = (): void => {
    if (isSlow()) socket.destroy()
    else look()
  }
  let next = clock.wake(clock.now() + LEAST_TIME, look)
  const end = (): void => next()
  request.once('end', end)
  request.once('close', end)
}

/** How a listener serves. `key` is the setting of its address; without `tls` it speaks plain HTTP. */
export interface ServingOptions {
  clock: Clock
  key?: string
  tls?: ShownCertificate | undefined
  /** The limits of connections, shared by all listeners. */
  places?: Places
}

/**
 * Makes the application listen on a socket, over TLS when there is a certificate. Throws an OperatorError when it
 * cannot listen on the address.
 */
export async function listen(
  app: { fetch: App['fetch']; direct?: App['direct'] },
  { host, ipv6Only = false, opened, port }: { host: string; port: number; ipv6Only?: boolean; opened?: Socket },
  { clock, key = 'http.listen', places, tls }: ServingOptions,
): Promise<HttpListener> {
  const whole = getRequestListener(app.fetch as Parameters<typeof getRequestListener>[0])
  const connections = new Connections(clock)
  const serve = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    if (!connections.begin(incoming, outgoing)) return void incoming.resume()
    holdToRate(incoming, clock)
    if (!app.direct?.(incoming, outgoing)) void whole(incoming, outgoing)
  }
  const server: Server | TlsServer = tls
    ? createTlsServer(
        {
          ...LIMITS,
          ...tls.certificate,
          ...TLS_POLICY,
          handshakeTimeout: HEADER_TIME,
          SNICallback: (host, done) => done(null, tls.contextOf(host)),
          ALPNCallback: protocolOf(tls),
        },
        serve,
      )
    : createServer(LIMITS, serve)
  server.on('clientError', (error, socket) => connections.refuse(error, socket as Socket))
  server.on('checkContinue', (incoming: IncomingMessage, outgoing: ServerResponse) => {
    continueWhenRead(incoming, outgoing)
    serve(incoming, outgoing)
  })
  // The handshake itself is the proof: the connection ends after it, without data (RFC 8737 §3).
  server.on('secureConnection', (socket: TLSSocket) => void (socket.alpnProtocol === ACME_TLS && socket.end()))
  server.on('connection', (socket: Socket) => {
    if (places && !places.take(socket)) socket.destroy()
  })
  // As the caller, because ports below 1024 are root's to open (D119).
  const opening = Promise.withResolvers<void>()
  server.once('error', (thrown) => opening.reject(listenError(thrown, key, { host, port })))
  await asCaller(() => (server.listen(opened ?? { port, host, ipv6Only }, opening.resolve), opening.promise))
  return {
    host,
    port: portOf(server),
    renew: (renewed) => (server as TlsServer).setSecureContext({ ...renewed, ...TLS_POLICY }),
    close: (patience) =>
      new Promise((resolve) => {
        const inTime = clock.wake(clock.now() + patience, () => server.closeAllConnections())
        server.close(() => {
          inTime()
          resolve()
        })
        server.closeIdleConnections()
      }),
  }
}

/** An error with one sentence about an address on which the server cannot listen; the system's error is its cause. */
export function listenError(
  thrown: unknown,
  key: string,
  { host, port }: { host: string; port: number },
  contained = inContainer(),
): OperatorError {
  const where = formatEndpoint(host, port)
  const said = (sentence: string): OperatorError => new OperatorError(sentence, { cause: thrown })
  switch (codeOf(thrown)) {
    case 'EADDRINUSE':
      return said(
        `${where} is in use by another program, which "ss -ltnp" names to root; end it or choose another "${key}".`,
      )
    case 'EACCES':
      return said(
        `${where} ("${key}") needs rights that this user lacks: ${contained ? LOW_PORTS : 'choose a port above 1023, or let the service have AmbientCapabilities=CAP_NET_BIND_SERVICE, as the unit of the package does'}.`,
      )
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return said(`${where} is not an address of this machine; correct "${key}".`)
    default:
      return said(`${where} cannot be listened on (${codeOf(thrown)}); correct "${key}".`)
  }
}
