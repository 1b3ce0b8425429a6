// smtp-server with our own sessions. Every connection is counted from the moment it is accepted, before TLS and before
// the greeting: a silent client takes a place like any other client, and loses it soon.
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { SMTPServer } from 'smtp-server'
import { count } from '../base/maps.ts'
import { SECOND } from '../base/clock.ts'
import { counters } from '../base/counters.ts'
import { customerOf } from '../base/network.ts'
import { InboundSession } from './session.ts'

/** How long a TLS handshake may take, in ms. An honest client takes less. */
export const HANDSHAKE = 30 * SECOND

const TOO_MANY = '421 4.7.0 Too many connections; try again later\r\n'

export interface ServerLimits {
  /** Connections at once: of all clients, and of one address (a /64 of IPv6). */
  connections: number
  perAddress: number
  /** Milliseconds that a TLS handshake may take. */
  handshake: number
}

export class Server extends SMTPServer {
  readonly sessions = new Map<string, InboundSession>()
  /** Connections that have a place, with the address that each is counted for. */
  readonly #places = new Map<Socket, string>()
  readonly #byAddress = new Map<string, number>()
  readonly #limits: ServerLimits

  constructor(options: ConstructorParameters<typeof SMTPServer>[0], limits: ServerLimits) {
    super(options)
    this.#limits = limits
  }

  /** Called when a connection is accepted. False: the connection is refused. */
  override _acceptSocket(socket: Socket, handshake: boolean): (() => void) | false {
    const customer = customerOf(socket.remoteAddress ?? '')
    const open = (this.#byAddress.get(customer) ?? 0) + 1
    // A refused connection takes no place: otherwise a client that tries again at once would be refused because of its
    // own last try.
    if (this.#places.size >= this.#limits.connections || open > this.#limits.perAddress) {
      turnAway(socket, handshake)
      return false
    }
    this.#byAddress.set(customer, open)
    this.#places.set(socket, customer)
    this.#follow(socket)
    if (handshake) {
      // The TLS socket is destroyed, not the socket below it: without the socket below, TLS fails with an error.
      const late = setTimeout(() => this._pendingSockets.get(socket)?.destroy(), this.#limits.handshake).unref()
      socket.once('close', () => clearTimeout(late))
    }
    return super._acceptSocket(socket, handshake)
  }

  /** Begins the session of an accepted connection. */
  override connect(socket: Socket | TLSSocket, options?: ConstructorParameters<typeof InboundSession>[2]): void {
    const session = new InboundSession(this, socket, options)
    this.connections.add(session)
    this.sessions.set(session.id, session)
    session.on('error', (error) => this._onError(error as Error))
    // STARTTLS takes all listeners off the socket below.
    session.on('upgrade', (below: Socket) => this.#follow(below))
    session.init()
  }

  /** Ends connections that are still in their handshake: they have no session that could end. */
  endHandshakes(): void {
    for (const top of this._pendingSockets.values()) top.destroy()
  }

  /** Gives the place of a connection back when it closes. */
  #follow(socket: Socket): void {
    socket.once('close', () => {
      const customer = this.#places.get(socket)
      if (customer === undefined) return
      this.#places.delete(socket)
      count(this.#byAddress, customer, -1)
    })
  }
}

/** Refuses a connection. A client that waits for TLS cannot read a reply. */
function turnAway(socket: Socket, handshake: boolean): void {
  counters.smtp.add({ direction: 'in', class: '4xx' })
  socket.on('error', () => {})
  if (handshake) return void socket.destroy()
  socket.end(TOO_MANY)
  socket.destroySoon()
}
