// A receiving SMTP listener. Its options decide two questions: is a recipient accepted, and was a message kept? The 250
// after the final dot is sent only when the message was kept (RFC 5321 §6.1).
import { domainToASCII } from 'node:url'
import { type SMTPServerDataStream, type SMTPServerOptions, type SMTPServerSession, SMTPServer } from 'smtp-server'
import type { Certificate } from '../base/certificate.ts'
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import { TLS_POLICY } from '../base/tls.ts'
import { portOf, customerOf } from '../base/network.ts'
import { judge, signIn, type SmtpRefusal } from './answers.ts'
import { BARE_LINE_END, InboundSession } from './session.ts'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { count } from '../base/maps.ts'
import { counters } from '../base/counters.ts'

/** The facts about a message before and while it is received. */
export interface InboundEnvelope {
  from: string
  to: string[]
  client: string
  helo: string
  /** Name of the TLS protocol and cipher, null in clear text. */
  tls: string | null
  /** "ESMTPS" and the like, for the Received field (RFC 3848). */
  protocol: string
}

/** `Who` is the signed-in client, as `login` returns it, or undefined without sign-in. */
export interface ListenerOptions<Who = unknown> {
  hostname: string
  clock: Clock
  certificate?: Certificate
  maxBytes: number
  /** The most connections in total, and per IP address. Each counts from the moment it is accepted. */
  maxConnections?: number
  maxPerAddress?: number
  maxRecipients?: number
  /** Milliseconds without a byte until the session ends. */
  idle?: number
  /** Milliseconds that a client may take for one command. A message gets one more second for each 500 bytes. */
  deadline?: number
  /** Milliseconds that a TLS handshake may take, from the first byte or after STARTTLS. */
  handshake?: number
  /** Milliseconds that a client may take for one command before it has signed in. */
  signInDeadline?: number
  /** TLS from the first byte (RFC 8314 §3.3). Otherwise STARTTLS, if there is a certificate. */
  implicitTls?: boolean
  /** When set, clients must sign in (AUTH PLAIN and LOGIN, RFC 4954). Returns the owner of a password, or a refusal. */
  login?: (password: string, client: string) => Promise<{ who: Who } | SmtpRefusal>
  /** Rejects a sender, or temporarily all mail. Undefined: accepted. */
  welcome?: (from: string, who: Who) => SmtpRefusal | undefined
  /** Rejects a message before it is sent (at DATA). Undefined: the sender may still send. */
  data?: (who: Who) => SmtpRefusal | undefined
  /** Rejects a recipient. Undefined: accepted. */
  recipient: (address: string, from: string, who: Who) => Promise<SmtpRefusal | undefined> | SmtpRefusal | undefined
  /**
   * Stores the message. `bytes` yields the bytes as they arrive, at most a little more than `maxBytes`, and finishes
   * without an error at the final dot. After that, `sound` returns a refusal if the message was malformed. Any result
   * except a refusal means that the message is stored durably. `accepted` is the reply text.
   */
  message: (
    bytes: AsyncIterable<Buffer>,
    envelope: InboundEnvelope,
    sound: () => SmtpRefusal | undefined,
    who: Who,
  ) => Promise<SmtpRefusal | { accepted: string } | undefined>
  /** Receives internal errors. The client gets only a temporary refusal. */
  fault?: (thrown: unknown) => void
}

export interface SmtpListener {
  host: string
  port: number
  /** The number of clients that connected or started a message in the last second, and are still connected. */
  readonly atWork: number
  /** Uses another certificate for new sessions. */
  renew(certificate: Certificate): void
  /** Accepts no more connections. Ends idle sessions at once, other sessions after the answer to their message, at most
   *  `patience` ms later. */
  close(patience?: number): Promise<void>
}

const MAX_CONNECTIONS = 1000
const MAX_RECIPIENTS = 1000
const IDLE = 5 * MINUTE
/**
 * Limits for slow clients: a client that sends a byte a minute would keep its connection for hours (as Postfix:
 * smtpd_per_request_deadline, smtpd_min_data_rate).
 */
const DEADLINE = 5 * MINUTE
const MIN_RATE = 500
/** Only applications sign in here, and they have their password ready, so they need less time than a person. */
const SIGN_IN_DEADLINE = 30 * SECOND
/**
 * A message is passed on in blocks of at least this many bytes: many small pieces would take more memory than the
 * message has bytes.
 */
const BLOCK = 16 * 1024

/** Listens at an address. Throws the error of the system call, such as EADDRINUSE. */
export async function startListener<Who>(
  { host, port, ipv6Only = false }: { host: string; port: number; ipv6Only?: boolean },
  options: ListenerOptions<Who>,
): Promise<SmtpListener> {
  const { clock, handshake = HANDSHAKE, maxConnections = MAX_CONNECTIONS } = options
  const { maxPerAddress = maxConnections } = options
  const server: Server = new Server(
    {
      ...settingsOf(options),
      ...handlersOf(options, () => server),
      onClose: ({ id }) => server.forget(id),
    },
    { connections: maxConnections, perAddress: maxPerAddress, handshake },
  )
  server.on('error', () => {})
  const watch = watchDeadlines(server, options)
  await new Promise<void>((resolve, reject) => {
    server.server.once('error', reject)
    server.server.listen({ port, host, ipv6Only }, resolve)
  })
  return {
    host,
    port: portOf(server.server),
    get atWork() {
      return server.atWork
    },
    renew: (renewed) => server.updateSecureContext({ ...renewed, ...TLS_POLICY }),
    close: (patience = 0) =>
      new Promise((resolve) => {
        clearInterval(watch)
        const inTime = clock.wake(clock.now() + patience, () => {
          for (const session of server.sessions.values()) session.destroy()
        })
        server.server.close(() => {
          inTime()
          resolve()
        })
        server.endHandshakes()
        for (const session of server.sessions.values()) session.retire()
      }),
  }
}

/** The settings for the library. Without a certificate or a login, the commands that need it are switched off. */
function settingsOf<Who>(options: ListenerOptions<Who>): SMTPServerOptions {
  const { certificate, login } = options
  return {
    name: options.hostname,
    banner: 'Postrider',
    size: options.maxBytes,
    maxRecipients: options.maxRecipients ?? MAX_RECIPIENTS,
    socketTimeout: options.idle ?? IDLE,
    logger: false,
    secure: options.implicitTls === true,
    authOptional: !login,
    authMethods: ['PLAIN', 'LOGIN'],
    disabledCommands: [
      'XCLIENT',
      'XFORWARD',
      'WIZ',
      'SHELL',
      'KILL',
      ...(login ? [] : ['AUTH']),
      ...(certificate ? [] : ['STARTTLS']),
    ],
    hideENHANCEDSTATUSCODES: false,
    disableReverseLookup: true,
    ...(certificate ? { ...certificate, ...TLS_POLICY } : {}),
  }
}

/** The answers to a client's commands. */
function handlersOf<Who>(options: ListenerOptions<Who>, server: () => Server): SMTPServerOptions {
  const sessionOf = (id: string): InboundSession | undefined => server().sessions.get(id)
  const fault = (thrown: unknown): void => options.fault?.(thrown)
  return {
    onAuth({ password }, { remoteAddress }, done) {
      void signIn(done, fault, () => options.login!(password ?? '', remoteAddress))
    },
    // The library's own handler answers one turn of the event loop later: a client that pipelines would have sent its
    // commands too early by then.
    onConnect: (_, done) => done(),
    onSecure: (_, __, done) => done(),
    onMailFrom(_, session, done) {
      const own = sessionOf(session.id)
      const { data } = options
      if (own) server().begin(own)
      if (own && data) own.mayData = (said) => judge(said, fault, () => data(whoOf(session)))
      judge(done, fault, () => options.welcome?.(senderOf(session), whoOf(session)))
    },
    onRcptTo(address, session, done) {
      judge(done, fault, () => options.recipient(address.address, senderOf(session), whoOf(session)))
    },
    onData(stream, session, done) {
      const own = sessionOf(session.id)
      const sound = (): SmtpRefusal | undefined => (own?.broken ? { code: 521, text: BARE_LINE_END } : undefined)
      // When a client disconnects in the middle of a message, this is not an internal error.
      const here = (thrown: unknown): void => void ((stream.readableEnded || !stream.destroyed) && fault(thrown))
      judge(done, here, async () => {
        const answer = await options.message(bytesOf(stream), envelopeOf(session), sound, whoOf(session))
        // A message found malformed at its end was not kept either.
        const result = sound() ?? answer
        if (result === undefined || 'accepted' in result) own?.carried()
        return result
      })
    },
  }
}

/** Closes sessions whose client is too slow. The timer does not keep the process alive. */
function watchDeadlines(
  server: Server,
  {
    deadline = DEADLINE,
    handshake = HANDSHAKE,
    login,
    signInDeadline = SIGN_IN_DEADLINE,
  }: Pick<ListenerOptions, 'deadline' | 'handshake' | 'signInDeadline'> & { login?: unknown },
): NodeJS.Timeout {
  const patience = {
    request: deadline,
    handshake,
    signIn: login ? Math.min(signInDeadline, deadline) : deadline,
    rate: MIN_RATE,
  }
  return setInterval(
    () => {
      for (const session of server.sessions.values()) if (session.overdue(patience)) session.expire()
    },
    Math.min(patience.signIn, deadline, handshake) / 10,
  ).unref()
}

/** Writes the domain as A-label, as everywhere in Postrider. The library returns Unicode. */
function withALabels(address: string): string {
  const domain = address.slice(address.lastIndexOf('@') + 1)
  return /[^\0-\x7f]/.test(domain)
    ? address.slice(0, address.length - domain.length) + (domainToASCII(domain) || domain)
    : address
}

/** The signed-in client, which `signIn` gave to the library as the user, or undefined for listeners without sign-in. */
const whoOf = <Who>({ user }: SMTPServerSession): Who => ((user ?? { who: undefined }) as { who: Who }).who

const senderOf = ({ envelope: { mailFrom } }: SMTPServerSession): string =>
  mailFrom ? withALabels(mailFrom.address) : ''

function envelopeOf(session: SMTPServerSession): InboundEnvelope {
  const { envelope, hostNameAppearsAs, remoteAddress, secure, tlsOptions, transmissionType } = session
  return {
    from: senderOf(session),
    to: envelope.rcptTo.map(({ address }) => withALabels(address)),
    client: remoteAddress,
    helo: hostNameAppearsAs || '',
    tls: secure ? (tlsOptions ? `${tlsOptions.version ?? 'TLS'} ${tlsOptions.name}` : 'TLS') : null,
    protocol: envelope.smtpUtf8 ? `UTF8SMTP${secure ? 'S' : ''}` : (transmissionType ?? 'ESMTP'),
  }
}

/**
 * The bytes as they arrive. Throws when the connection ends before the final dot. When the reader stops early the  rest
 * is discarded, so that the reply still comes after the final dot (RFC 5321 §4.1.1.4).
 */
async function* bytesOf(stream: SMTPServerDataStream): AsyncIterable<Buffer> {
  let block: Buffer[] = []
  let received = 0
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      block.push(chunk)
      received += chunk.length
      if (received < BLOCK) continue
      yield Buffer.concat(block)
      block = []
      received = 0
    }
    if (received > 0) yield Buffer.concat(block)
  } finally {
    stream.resume()
  }
}

// smtp-server with our own sessions. Every connection is counted from the moment it is accepted, before TLS and before
// the greeting: a silent client takes a place like any other client, and loses it soon.

/** The time limit of a TLS handshake in ms. An honest client needs less. */
export const HANDSHAKE = 30 * SECOND

/** A client is at work for so long (ms) after it connected or began a message. */
const AT_WORK = SECOND

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
  /**
   * The time at which each session connected or last started a message (ms of `performance.now()`), the oldest first.
   */
  readonly #begun = new Map<InboundSession, number>()
  /** Connections that have a place, with the address that each is counted for. */
  readonly #places = new Map<Socket, string>()
  readonly #byAddress = new Map<string, number>()
  readonly #limits: ServerLimits

  constructor(options: ConstructorParameters<typeof SMTPServer>[0], limits: ServerLimits) {
    super(options)
    this.#limits = limits
  }

  /** Called when a connection is accepted. False: the connection is rejected. */
  override _acceptSocket(socket: Socket, handshake: boolean): (() => void) | false {
    const customer = customerOf(socket.remoteAddress ?? '')
    const open = (this.#byAddress.get(customer) ?? 0) + 1
    // A rejected connection does not use a slot: otherwise a client that retries at once would be rejected because of
    // its own last attempt.
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
    this.begin(session)
    session.on('error', (error) => this._onError(error as Error))
    // STARTTLS takes all listeners off the socket below.
    session.on('upgrade', (below: Socket) => this.#follow(below))
    session.init()
  }

  /** Call it when a session begins a message. */
  begin(session: InboundSession): void {
    this.#begun.delete(session)
    this.#begun.set(session, performance.now())
  }

  /** Call it when the connection of a session has closed. */
  forget(id: string): void {
    const session = this.sessions.get(id)
    if (session) this.#begun.delete(session)
    this.sessions.delete(id)
  }

  /** The number of sessions that connected or began a message just now. */
  get atWork(): number {
    const since = performance.now() - AT_WORK
    for (const [session, begun] of this.#begun) {
      if (begun >= since) break
      this.#begun.delete(session)
    }
    return this.#begun.size
  }

  /** Closes connections in their handshake, which have no session yet. */
  endHandshakes(): void {
    for (const top of this._pendingSockets.values()) top.destroy()
  }

  /** Frees the slot of a connection when it closes. */
  #follow(socket: Socket): void {
    socket.once('close', () => {
      const customer = this.#places.get(socket)
      if (customer === undefined) return
      this.#places.delete(socket)
      count(this.#byAddress, customer, -1)
    })
  }
}

/** Rejects a connection. A client that waits for TLS cannot read a reply. */
function turnAway(socket: Socket, handshake: boolean): void {
  counters.smtp.add({ direction: 'in', class: '4xx' })
  socket.on('error', () => {})
  if (handshake) return void socket.destroy()
  socket.end(TOO_MANY)
  socket.destroySoon()
}
