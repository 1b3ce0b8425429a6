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
import { TLS_POLICY } from '../base/tls.ts'
import { Connections, continueWhenRead, MOST_HEADER } from './connection.ts'
import type { Places } from './places.ts'
import type { App } from './server.ts'

export interface HttpListener {
  host: string
  port: number
  /** Uses another certificate for new connections over HTTPS. */
  renew(certificate: Certificate): void
  /** Accepts no new connections, and waits at most `patience` ms for requests in progress. */
  close(patience: number): Promise<void>
}

/**
 * Milliseconds for a request's header, from the moment that the connection is accepted (so a silent one is closed), and
 * for the whole request with its body. The third is the interval of Node's check.
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
/** The minimum rate of a request. The connection is closed if fewer bytes arrive in this time (ms). */
const RATE_BYTES = 10_000
const RATE_TIME = 20 * SECOND

/** The certificates for TLS handshakes. */
export interface ShownCertificate {
  certificate: Certificate
  /** Returns the certificate for the host in the SNI of a client, or undefined for the default certificate. */
  contextOf: (host: string) => SecureContext | undefined
  /** The certificate that proves a name to a certificate authority (RFC 8737). */
  proofFor?: (host: string) => Certificate | undefined
}

/**
 * The proof certificate is only for clients that offer acme-tls/1 alone. All other clients get HTTP/1.1 or no protocol
 * (RFC 7301 §3.2).
 */
const protocolOf = ({ proofFor }: ShownCertificate): TlsOptions['ALPNCallback'] =>
  function agree(this: TLSSocket, { protocols, servername }) {
    const proof = protocols.length === 1 && protocols[0] === ACME_TLS ? proofFor?.(servername) : undefined
    if (proof) this.setKeyCert(proof)
    return protocols.find((each) => each === (proof ? ACME_TLS : 'http/1.1'))
  }

/**
 * Closes the connection of a request whose body arrives slower than the minimum rate. A busy server must not close the
 * connection of a fast client, so it first reads the bytes that have already arrived.
 */
function holdToRate(request: IncomingMessage, clock: Clock): void {
  if (request.headers['content-length'] === undefined && request.headers['transfer-encoding'] === undefined) return
  const { socket } = request
  let seen = socket.bytesRead
  const isSlow = (): boolean => !request.complete && socket.bytesRead - seen < RATE_BYTES
  const look = (): void => {
    // Two turns of the event loop, so that bytes which arrived while this process was busy are read first.
    if (isSlow()) return void setImmediate(() => setImmediate(close))
    seen = socket.bytesRead
    if (!request.complete) next = clock.wake(clock.now() + RATE_TIME, look)
  }
  const close = (): void => {
    if (isSlow()) socket.destroy()
    else look()
  }
  let next = clock.wake(clock.now() + RATE_TIME, look)
  const end = (): void => next()
  request.once('end', end)
  request.once('close', end)
}

/** How a listener serves. `key` is the setting of its address. Without `tls` it speaks plain HTTP. */
export interface ServingOptions {
  clock: Clock
  key?: string
  tls?: ShownCertificate | undefined
  /** The limits of connections, shared by all listeners. */
  places?: Places
}

/**
 * Makes the application listen on a socket, over TLS if there is a certificate. Throws an OperatorError if it cannot
 * listen on the address.
 */
export async function listen(
  app: { fetch: App['fetch']; direct?: App['direct'] },
  { host, ipv6Only = false, port }: { host: string; port: number; ipv6Only?: boolean },
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
  const opening = Promise.withResolvers<void>()
  server.once('error', (thrown) => opening.reject(listenError(thrown, key, { host, port })))
  server.listen({ port, host, ipv6Only }, opening.resolve)
  await opening.promise
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

/**
 * An error with one sentence about an address on which the server cannot listen, with the system's error as its cause.
 */
export function listenError(
  thrown: unknown,
  key: string,
  { host, port }: { host: string; port: number },
  contained = inContainer(),
): OperatorError {
  const where = formatEndpoint(host, port)
  const failure = (sentence: string): OperatorError => new OperatorError(sentence, { cause: thrown })
  switch (codeOf(thrown)) {
    case 'EADDRINUSE':
      return failure(
        `${where} ("${key}") is used by another process; find it with "ss -ltnp" as root and stop it, or change "${key}" to another address or port.`,
      )
    case 'EACCES':
      return failure(
        `${where} ("${key}") needs privileges that this user does not have; ${contained ? LOW_PORTS : 'choose a port above 1023, or set AmbientCapabilities=CAP_NET_BIND_SERVICE in the systemd unit, as the package does'}.`,
      )
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return failure(`${where} is not an address of this machine; correct "${key}".`)
    default:
      return failure(`${where} cannot be listened on (${codeOf(thrown)}); correct "${key}".`)
  }
}
