// A receiving SMTP listener behind two questions: may this recipient be written to, and is this message kept? It answers 250 after
// the final dot only once the second was answered with yes (RFC 5321 §6.1).
import type { AddressInfo } from 'node:net'
import { domainToASCII } from 'node:url'
import type { SMTPServerDataStream, SMTPServerOptions, SMTPServerSession } from 'smtp-server'
import type { Certificate } from '../base/certificate.ts'
import { codeOf } from '../base/errors.ts'
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import { TLS_POLICY } from '../base/tls.ts'
import { HANDSHAKE, Server } from './server.ts'
import { BARE_LINE_END } from './session.ts'

/** A refusal: 550 and "5.1.1 No such mailbox"; without an enhanced code of its own the text gets the usual one. */
export interface SmtpRefusal {
  code: number
  text: string
}

/** What is known of a message before and while it comes. */
export interface InboundEnvelope {
  from: string
  to: string[]
  /** Address of the client. */
  client: string
  helo: string
  /** Name of the TLS protocol and cipher, null in clear text. */
  tls: string | null
  /** "ESMTPS" and the like, for the Received field (RFC 3848). */
  protocol: string
}

/** Who signed in, as `login` answered; undefined where nobody has to. */
export type Who = unknown

export interface ListenerOptions {
  hostname: string
  clock: Clock
  certificate?: Certificate
  maxBytes: number
  /** Connections at once, of all clients and of one address; each counts from the moment it is accepted. */
  maxConnections?: number
  maxPerAddress?: number
  maxRecipients?: number
  /** Milliseconds without a byte. */
  idle?: number
  /** Milliseconds that a client may take for one command; a message besides takes a second for each 500 octets at most. */
  deadline?: number
  /** Milliseconds that a TLS handshake may take, from the first octet or after STARTTLS. */
  handshake?: number
  /** Milliseconds that a client who has yet to sign in may take for one command. */
  signInDeadline?: number
  /** TLS from the first octet (RFC 8314 §3.3); else by STARTTLS, where there is a certificate. */
  implicitTls?: boolean
  /** Clients sign in (AUTH PLAIN and LOGIN, RFC 4954) before they may send: who a password belongs to, or why it is not taken. */
  login?: (password: string, client: string) => Promise<{ who: Who } | SmtpRefusal>
  /** Whether any mail is taken now from this sender; undefined: it is. */
  welcome?: (from: string, who: Who) => SmtpRefusal | undefined
  /** Undefined: welcome. */
  recipient: (address: string, from: string, who: Who) => Promise<SmtpRefusal | undefined> | SmtpRefusal | undefined
  /** Keeps the message, whose bytes come as they are read, up to a little more than `maxBytes`; anything but a refusal: kept, whatever
   *  happens next; `accepted` is what the client is told. The stream's end without an error is the final dot. `sound` tells then whether
   *  the message may be believed. */
  message: (
    bytes: AsyncIterable<Buffer>,
    envelope: InboundEnvelope,
    sound: () => SmtpRefusal | undefined,
    who: Who,
  ) => Promise<SmtpRefusal | { accepted: string } | undefined>
  /** Hears what went wrong here; the client is only told that something did. */
  fault?: (thrown: unknown) => void
}

export interface SmtpListener {
  host: string
  port: number
  /** Takes another certificate for sessions to come. */
  renew(certificate: Certificate): void
  /** Accepts nothing more; ends idle sessions at once, others when their message is answered, at most `patience` ms later. */
  close(patience?: number): Promise<void>
}

const MAX_CONNECTIONS = 1000
const MAX_RECIPIENTS = 1000
const IDLE = 5 * MINUTE
/** A client that sends an octet a minute would keep its place for hours (Postfix: smtpd_per_request_deadline, smtpd_min_data_rate). */
const DEADLINE = 5 * MINUTE
const MIN_RATE = 500
/** Programs have their password at hand. */
const SIGN_IN_DEADLINE = 30 * SECOND
/** A message is handed on in blocks of at least so many octets: in small pieces it would fill more memory than it has octets. */
const BLOCK = 16 * 1024

export async function startListener(
  { host, port, ipv6Only = false }: { host: string; port: number; ipv6Only?: boolean },
  options: ListenerOptions,
): Promise<SmtpListener> {
  const { certificate, clock, login, maxConnections = MAX_CONNECTIONS, hostname } = options
  const { maxPerAddress = maxConnections } = options
  const fault = (thrown: unknown): void => options.fault?.(thrown)
  const settings: SMTPServerOptions = {
    name: hostname,
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
    onAuth({ password }, { remoteAddress }, done) {
      void signIn(done, fault, () => login!(password ?? '', remoteAddress))
    },
    // At once: the library's own answer comes a turn later, and clients that pipeline would have talked too soon.
    onConnect: (_, done) => done(),
    onSecure: (_, __, done) => done(),
    onClose: ({ id }) => void server.sessions.delete(id),
    onMailFrom: (_, session, done) => judge(done, fault, () => options.welcome?.(senderOf(session), whoOf(session))),
    onRcptTo(address, session, done) {
      judge(done, fault, () => options.recipient(address.address, senderOf(session), whoOf(session)))
    },
    onData(stream, session, done) {
      const own = server.sessions.get(session.id)
      const sound = (): SmtpRefusal | undefined => (own?.broken ? { code: 521, text: BARE_LINE_END } : undefined)
      // A client that goes away in the middle is no fault of ours.
      const here = (thrown: unknown): void => void ((stream.readableEnded || !stream.destroyed) && fault(thrown))
      judge(done, here, async () => {
        const answer = await options.message(bytesOf(stream), envelopeOf(session), sound, whoOf(session))
        // What was found wrong only at the end was not kept either.
        const judged = sound() ?? answer
        if (judged === undefined || 'accepted' in judged) own?.carried()
        return judged
      })
    },
  }
  const { deadline = DEADLINE, handshake = HANDSHAKE, signInDeadline = SIGN_IN_DEADLINE } = options
  const server = new Server(settings, { connections: maxConnections, perAddress: maxPerAddress, handshake })
  server.on('error', () => {})
  const patience = {
    request: deadline,
    handshake,
    signIn: login ? Math.min(signInDeadline, deadline) : deadline,
    rate: MIN_RATE,
  }
  const watch = setInterval(
    () => {
      for (const session of server.sessions.values()) if (session.overdue(patience)) session.expire()
    },
    Math.min(patience.signIn, deadline, handshake) / 10,
  ).unref()
  await new Promise<void>((resolve, reject) => {
    server.server.once('error', reject)
    server.listen({ port, host, ipv6Only }, resolve)
  })
  return {
    host,
    port: (server.server.address() as AddressInfo).port,
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

/** Domains are A-labels here and everywhere, whatever the library makes of them. */
function withALabels(address: string): string {
  const domain = address.slice(address.lastIndexOf('@') + 1)
  return /[^\0-\x7f]/.test(domain)
    ? address.slice(0, address.length - domain.length) + (domainToASCII(domain) || domain)
    : address
}

/** Who signed in. */
const whoOf = ({ user }: SMTPServerSession): Who => (user as { who: Who } | undefined)?.who

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

/** The bytes as they come; a connection that ends before the final dot throws. What nobody wants to read any more is dropped, so that
 *  the answer follows the final dot (RFC 5321 §4.1.1.4). */
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

const asError = ({ code, text }: SmtpRefusal): Error => Object.assign(new Error(text), { responseCode: code })

/** Tells smtp-server who a password belongs to; a fault of ours is a temporary refusal (RFC 4954 §4). */
async function signIn(
  done: (error: Error | null, answer?: { user: object }) => void,
  hear: (thrown: unknown) => void,
  question: () => Promise<{ who: Who } | SmtpRefusal>,
): Promise<void> {
  let answer: { who: Who } | SmtpRefusal
  try {
    answer = await question()
  } catch (thrown) {
    hear(thrown)
    answer = { code: 454, text: '4.7.0 Something went wrong here; try again later' }
  }
  if ('who' in answer) done(null, { user: answer })
  else done(asError(answer))
}

/** Tells smtp-server what came of a question; a fault of ours is a temporary refusal, a full disk says so. */
function judge(
  done: (error?: Error | null, text?: string) => void,
  hear: (thrown: unknown) => void,
  question: () => Promise<SmtpRefusal | { accepted: string } | undefined> | SmtpRefusal | undefined,
): void {
  const answer = (judged: SmtpRefusal | { accepted: string } | undefined): void => {
    if (judged === undefined) done(null)
    else if ('accepted' in judged) done(null, judged.accepted)
    else done(asError(judged))
  }
  const fault = (thrown: unknown): void => {
    hear(thrown)
    answer(
      /^(?:ENOSPC|EDQUOT|SQLITE_FULL)$/.test(codeOf(thrown))
        ? { code: 452, text: '4.3.1 Out of storage; try again later' }
        : { code: 451, text: '4.3.0 Something went wrong here; try again later' },
    )
  }
  try {
    const result = question()
    if (result instanceof Promise) result.then(answer, fault)
    else answer(result)
  } catch (thrown) {
    fault(thrown)
  }
}
