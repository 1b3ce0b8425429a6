// A receiving SMTP listener. Its options decide two questions: is a recipient accepted, and was a message kept? The 250
// after the final dot is sent only when the message was kept (RFC 5321 §6.1).
import type { Socket } from 'node:net'
import { domainToASCII } from 'node:url'
import type { SMTPServerDataStream, SMTPServerOptions, SMTPServerSession } from 'smtp-server'
import type { Certificate } from '../base/certificate.ts'
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import { TLS_POLICY } from '../base/tls.ts'
import { portOf } from '../base/network.ts'
import { asCaller } from '../base/ownership.ts'
import { judge, signIn, type SmtpRefusal } from './answers.ts'
import { HANDSHAKE, Server } from './server.ts'
import { BARE_LINE_END, type InboundSession } from './session.ts'

/** The facts about a message before and while it is received. */
export interface InboundEnvelope {
  from: string
  to: string[]
  /** IP address of the client. */
  client: string
  helo: string
  /** Name of the TLS protocol and cipher, null in clear text. */
  tls: string | null
  /** "ESMTPS" and the like, for the Received field (RFC 3848). */
  protocol: string
}

/** `Who` is the signed-in client, as `login` returns it; undefined without sign-in. */
export interface ListenerOptions<Who = unknown> {
  hostname: string
  clock: Clock
  certificate?: Certificate
  maxBytes: number
  /** Connections at once, of all clients and of one address; each counts from the moment it is accepted. */
  maxConnections?: number
  maxPerAddress?: number
  maxRecipients?: number
  /** Milliseconds without an octet until the session ends. */
  idle?: number
  /** Milliseconds that a client may take for one command; a message gets one more second for each 500 octets. */
  deadline?: number
  /** Milliseconds that a TLS handshake may take, from the first octet or after STARTTLS. */
  handshake?: number
  /** Milliseconds that a client may take for one command before it has signed in. */
  signInDeadline?: number
  /** TLS from the first octet (RFC 8314 §3.3); else by STARTTLS, if there is a certificate. */
  implicitTls?: boolean
  /** When set, clients must sign in (AUTH PLAIN and LOGIN, RFC 4954). Returns the owner of a password, or a refusal. */
  login?: (password: string, client: string) => Promise<{ who: Who } | SmtpRefusal>
  /** Refuses a sender, or all mail for the moment; undefined: accepted. */
  welcome?: (from: string, who: Who) => SmtpRefusal | undefined
  /** Refuses a message before it is sent (at DATA); undefined: the sender may still send. */
  data?: (who: Who) => SmtpRefusal | undefined
  /** Refuses a recipient; undefined: accepted. */
  recipient: (address: string, from: string, who: Who) => Promise<SmtpRefusal | undefined> | SmtpRefusal | undefined
  /** Keeps the message. `bytes` gives the octets as they arrive, a little more than `maxBytes` at most; it ends without
   *  an error at the final dot. Then `sound` tells whether the message was well-formed. Any result but a refusal means
   *  that the message is stored durably; `accepted` is the reply text. */
  message: (
    bytes: AsyncIterable<Buffer>,
    envelope: InboundEnvelope,
    sound: () => SmtpRefusal | undefined,
    who: Who,
  ) => Promise<SmtpRefusal | { accepted: string } | undefined>
  /** Receives the errors of this program; the client gets only a temporary refusal. */
  fault?: (thrown: unknown) => void
}

export interface SmtpListener {
  host: string
  port: number
  /** Uses another certificate for new sessions. */
  renew(certificate: Certificate): void
  /** Accepts no more connections. Ends idle sessions at once, other sessions after the answer to their message, at most
   *  `patience` ms later. */
  close(patience?: number): Promise<void>
}

const MAX_CONNECTIONS = 1000
const MAX_RECIPIENTS = 1000
const IDLE = 5 * MINUTE
/** Limits for slow clients: a client that sends an octet a minute would keep its connection for hours (as Postfix:
 *  smtpd_per_request_deadline, smtpd_min_data_rate). */
const DEADLINE = 5 * MINUTE
const MIN_RATE = 500
/** Only programs sign in here, and a program has its password ready: it needs less time than a person. */
const SIGN_IN_DEADLINE = 30 * SECOND
/**
 * A message is passed on in blocks of at least this many octets: many small pieces would take more memory than the
 * message has octets.
 */
const BLOCK = 16 * 1024

/** Listens at an address. Throws the error of the system call, such as EADDRINUSE. */
export async function startListener<Who>(
  { host, opened, port, ipv6Only = false }: { host: string; port: number; ipv6Only?: boolean; opened?: Socket },
  options: ListenerOptions<Who>,
): Promise<SmtpListener> {
  const { clock, handshake = HANDSHAKE, maxConnections = MAX_CONNECTIONS } = options
  const { maxPerAddress = maxConnections } = options
  const server: Server = new Server(
    {
      ...settingsOf(options),
      ...handlersOf(options, (id) => server.sessions.get(id)),
      onClose: ({ id }) => void server.sessions.delete(id),
    },
    { connections: maxConnections, perAddress: maxPerAddress, handshake },
  )
  server.on('error', () => {})
  const watch = watchDeadlines(server, options)
  const opening = (): Promise<void> =>
    new Promise((resolve, reject) => {
      server.server.once('error', reject)
      server.server.listen(opened ?? { port, host, ipv6Only }, resolve)
    })
  // Ports below 1024 are root's to open (D119).
  await asCaller(opening)
  return {
    host,
    port: portOf(server.server),
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

/** The answers to a client's commands; `sessionOf` gives the session of an id. */
function handlersOf<Who>(
  options: ListenerOptions<Who>,
  sessionOf: (id: string) => InboundSession | undefined,
): SMTPServerOptions {
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
      if (own && data) own.mayData = (said) => judge(said, fault, () => data(whoOf(session)))
      judge(done, fault, () => options.welcome?.(senderOf(session), whoOf(session)))
    },
    onRcptTo(address, session, done) {
      judge(done, fault, () => options.recipient(address.address, senderOf(session), whoOf(session)))
    },
    onData(stream, session, done) {
      const own = sessionOf(session.id)
      const sound = (): SmtpRefusal | undefined => (own?.broken ? { code: 521, text: BARE_LINE_END } : undefined)
      // When a client disconnects in the middle of a message, this is not an error of this program.
      const here = (thrown: unknown): void => void ((stream.readableEnded || !stream.destroyed) && fault(thrown))
      judge(done, here, async () => {
        const answer = await options.message(bytesOf(stream), envelopeOf(session), sound, whoOf(session))
        // A message found malformed at its end was not kept either.
        const judged = sound() ?? answer
        if (judged === undefined || 'accepted' in judged) own?.carried()
        return judged
      })
    },
  }
}

/** Ends sessions whose client is too slow. The timer does not keep the process alive. */
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

/** Writes the domain as A-label, as everywhere in this program; the library gives Unicode. */
function withALabels(address: string): string {
  const domain = address.slice(address.lastIndexOf('@') + 1)
  return /[^\0-\x7f]/.test(domain)
    ? address.slice(0, address.length - domain.length) + (domainToASCII(domain) || domain)
    : address
}

/** The signed-in client, which `signIn` gave to the library as the user; undefined for listeners without sign-in. */
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

/** The octets as they arrive; throws when the connection ends before the final dot. When the reader stops early the
 *  rest is discarded, so that the reply still comes after the final dot (RFC 5321 §4.1.1.4). */
async function* bytesOf(stream: SMTPServerDataStream): AsyncIterable<Buffer> {
  let block: Buffer[] = []
  let octets = 0
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      block.push(chunk)
      octets += chunk.length
      if (octets < BLOCK) continue
      yield Buffer.concat(block)
      block = []
      octets = 0
    }
    if (octets > 0) yield Buffer.concat(block)
  } finally {
    stream.resume()
  }
}
