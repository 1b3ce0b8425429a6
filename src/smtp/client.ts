// One SMTP connection to a receiving server (RFC 5321, RFC 2920 pipelining, RFC 3207 STARTTLS). It carries any number
// of messages, one after the other. The result for each recipient is a Verdict. Failures are never thrown.
//
// Guarantees:
// - A recipient is `delivered` only after the complete 250 that follows the final dot.
// - Input that was buffered before a TLS handshake is discarded.
// - MAIL has only parameters that the server offered in its EHLO reply.
// - Every step has a time limit.
import { isAscii } from 'node:buffer'
import { HOUR, MINUTE, SECOND } from '../base/clock.ts'
import { isFailure, openChannel, type Channel, type Failure, type Verify } from './channel.ts'
import { addressIn, readCapabilities, type SmtpReply } from './reply.ts'
import { NOT_ASKED, writeSecurity, type Dnssec, type TlsPolicy, type TlsProof } from './security.ts'
import { ownVerdict, verdictOf, waitsForUs, type Stage, type Verdict } from './verdict.ts'

/** When TLS is used: never, when the server offers it, or always. */
export type TlsWish = 'none' | 'optional' | 'required'

/** Milliseconds for each step, from RFC 5321 §4.5.3.2 if it has a limit for the step. */
export const TIMEOUTS = {
  connect: 30 * SECOND,
  greeting: 5 * MINUTE,
  command: 5 * MINUTE,
  data: 2 * MINUTE,
  block: 3 * MINUTE,
  finalDot: 10 * MINUTE,
  /** No connection is used for longer than this. */
  session: 2 * HOUR,
}
export type Timeouts = typeof TIMEOUTS

export interface ConnectOptions {
  /** Host name, for TLS and for the record. */
  host: string
  address: string
  port: number
  localAddress?: string | undefined
  /** Our name in EHLO. */
  hostname: string
  tls: TlsWish
  /** The certificate must be valid. Only with `tls: 'required'`. */
  verify?: Verify | undefined
  /** For the record: the reason for TLS, and the DNSSEC status. */
  policy?: TlsPolicy | undefined
  dnssec?: Dnssec | undefined
  /** The plan of DANE for the receiving server (dane.ts): the connection is not used for mail with another. */
  plan?: string | undefined
  credentials?: Credentials | undefined
  timeouts?: Timeouts | undefined
}

export interface Envelope {
  from: string
  recipients: readonly string[]
}

/** An empty mail, for a DATA that was accepted although no recipient was (RFC 2920 §3.1). */
const NOTHING = Buffer.from('.\r\n')

export class SmtpSession {
  readonly host: string
  readonly #channel: Channel
  readonly #timeouts: Timeouts
  readonly #born = performance.now()
  readonly #options: ConnectOptions
  #capabilities = new Map<string, string>()
  #needsReset = false
  /** The address of ours that the server names in its answer to EHLO. */
  seenAs: string | undefined

  constructor(channel: Channel, options: ConnectOptions) {
    this.#channel = channel
    this.#options = options
    this.#timeouts = options.timeouts ?? TIMEOUTS
    this.host = options.host
  }

  /** False after the connection was closed, or if it is too old to be reused. */
  get usable(): boolean {
    return this.#channel.broken === null && performance.now() - this.#born < this.#timeouts.session
  }

  /** Whether the buffer of the last message is no longer read. */
  get flushed(): boolean {
    return this.#channel.flushed
  }

  /** Whether the server accepts bytes above 127 (RFC 6152), or addresses and header fields in UTF-8 (RFC 6531). */
  takes(keyword: '8BITMIME' | 'SMTPUTF8'): boolean {
    return this.#capabilities.has(keyword)
  }

  get tls(): string | null {
    return this.#channel.tls
  }

  /** Calls `hear` when the connection ends, except by `quit`. */
  onEnd(hear: () => void): void {
    this.#channel.onEnd = hear
  }

  /** Sends QUIT. Resolves when the connection is closed, within seconds. */
  quit(): Promise<void> {
    return this.#channel.quit()
  }

  /** Closes the connection at once, without QUIT. */
  destroy(): void {
    this.#channel.destroy()
  }

  /** Greeting, EHLO, STARTTLS and AUTH, or undefined if the session is ready for mail. */
  async open(options: ConnectOptions): Promise<Verdict | undefined> {
    const greeting = this.#unlessOk(await this.#channel.reply(this.#timeouts.greeting), 'greeting')
    if (greeting) return greeting
    return (
      (await this.#hello(options.hostname)) ??
      (await this.#secure(options)) ??
      (await this.#authenticate(options.credentials))
    )
  }

  async #secure({ hostname, plan = '', tls, verify }: ConnectOptions): Promise<Verdict | undefined> {
    if (tls === 'none') return undefined
    if (this.#capabilities.has('STARTTLS')) return this.#startTls(hostname, verify)
    if (tls === 'optional') return undefined
    return plan === ''
      ? this.#own('deferred', '4.7.10', 'The server does not offer TLS, but TLS is required.', 'starttls')
      : this.#own(
          'deferred',
          '4.7.4',
          'The server does not offer TLS, but its TLSA records require it (DANE).',
          'starttls',
        )
  }

  /**
   * Sends one mail. Returns one verdict for each recipient, in their order. `handed` is called with the indexes of the
   * accepted recipients as soon as the server has all bytes. The function that it returns is called when the answer
   * has arrived, or when no answer will arrive.
   */
  async send(envelope: Envelope, wire: Buffer, handed?: (recipients: number[]) => () => void): Promise<Verdict[]> {
    const { recipients } = envelope
    this.#channel.beginMail()
    const parameters = this.#parameters(envelope, wire)
    if (typeof parameters !== 'string') return recipients.map(() => parameters)
    const { answers, data } = await this.#envelope([
      `MAIL FROM:<${envelope.from}>${parameters}`,
      ...recipients.map((address) => `RCPT TO:<${address}>`),
    ])
    const [mail, ...rcpt] = answers.map((answer, index) => this.#unlessOk(answer, index === 0 ? 'mail' : 'rcpt'))
    const nobody = mail !== undefined || rcpt.every((verdict) => verdict !== undefined)
    if (data === undefined || isFailure(data) || data.code !== 354) {
      this.#needsReset = true
      const refused = data ? this.#unlessOk(data, 'data', 354) : undefined
      return rcpt.map(
        (verdict) => mail ?? verdict ?? refused ?? this.#own('deferred', '4.5.0', 'DATA was not accepted.', 'data'),
      )
    }
    const taken = rcpt.flatMap((verdict, index) => (verdict ? [] : [index]))
    const outcome = this.#outcome(
      await this.#data(nobody ? NOTHING : wire, () => (nobody ? undefined : handed?.(taken))),
    )
    return rcpt.map((verdict) => mail ?? verdict ?? outcome)
  }

  /**
   * Returns the MAIL parameters that the server offers and this message needs, or a verdict if the server cannot accept
   * the message.
   */
  #parameters({ from, recipients }: Envelope, wire: Buffer): string | Verdict {
    const size = this.#capabilities.get('SIZE')
    const limit = Number(size)
    if (limit > 0 && wire.length > limit)
      return this.#own(
        'bounced',
        '5.3.4',
        `The message has ${wire.length} bytes, but the server accepts at most ${limit}.`,
        'mail',
      )
    // Only mail from SMTP submission has bytes above 127.
    const ascii = isAscii(wire)
    const international =
      [from, ...recipients].some((address) => Buffer.byteLength(address) > address.length) ||
      (!ascii && !isAscii(wire.subarray(0, wire.indexOf('\r\n\r\n'))))
    // Free text in the header is ASCII by now (message/relay.ts): only addresses can still hold UTF-8.
    if (international && !this.#capabilities.has('SMTPUTF8'))
      return this.#own('bounced', '5.6.7', 'The server does not accept non-ASCII addresses (SMTPUTF8).', 'mail')
    const eight = !ascii && this.#capabilities.has('8BITMIME')
    const parameters = [
      ...(size === undefined ? [] : [`SIZE=${wire.length}`]),
      ...(eight ? ['BODY=8BITMIME'] : []),
      ...(international ? ['SMTPUTF8'] : []),
    ]
    return parameters.map((parameter) => ` ${parameter}`).join('')
  }

  async #hello(hostname: string): Promise<Verdict | undefined> {
    const { command } = this.#timeouts
    const answer = await this.#channel.command(`EHLO ${hostname}`, command)
    this.#capabilities = isFailure(answer) ? new Map() : readCapabilities(answer)
    this.seenAs = isFailure(answer) ? undefined : addressIn(answer)
    const unknown = !isFailure(answer) && answer.code >= 500
    return this.#unlessOk(unknown ? await this.#channel.command(`HELO ${hostname}`, command) : answer, 'ehlo')
  }

  async #startTls(hostname: string, verify: Verify | undefined): Promise<Verdict | undefined> {
    const { command } = this.#timeouts
    const answer = await this.#channel.command('STARTTLS', command)
    if (isFailure(answer) || answer.code !== 220) {
      const reason = isFailure(answer) ? answer.failure : answer.text
      return this.#own('deferred', '4.7.5', `STARTTLS failed: ${reason}`, 'starttls')
    }
    const failed = await this.#channel.startTls(
      verify && 'dane' in verify ? verify.dane.base : this.host,
      command,
      verify,
    )
    if (failed) return this.#own('deferred', '4.7.5', `TLS failed: ${failed.failure}`, 'starttls')
    // Capabilities from before TLS no longer count (RFC 3207 §4.2).
    return this.#hello(hostname)
  }

  /** Signs in. After a failure, the email is queued until the operator corrects the settings. */
  async #authenticate(credentials: Credentials | undefined): Promise<Verdict | undefined> {
    if (!credentials) return undefined
    const refused = await signIn(this.#channel, this.#capabilities, credentials, this.#timeouts.command)
    return refused === undefined ? undefined : this.#own('deferred', '4.7.8', refused, 'auth')
  }

  /** MAIL, RCPT … and DATA, pipelined when the server offers it. `data` is undefined when DATA was not sent. */
  async #envelope(commands: string[]): Promise<{ answers: (SmtpReply | Failure)[]; data?: SmtpReply | Failure }> {
    const { command, data } = this.#timeouts
    const answers: (SmtpReply | Failure)[] = []
    if (this.#needsReset) {
      const reset = await this.#channel.command('RSET', command)
      if (isFailure(reset)) return { answers: commands.map(() => reset) }
      this.#needsReset = false
    }
    if (this.#capabilities.has('PIPELINING')) {
      this.#channel.write([...commands, 'DATA'])
      for (const _ of commands) answers.push(await this.#channel.reply(command))
      return { answers, data: await this.#channel.reply(data) }
    }
    for (const line of commands) {
      answers.push(await this.#channel.command(line, command))
      const [first, second] = answers
      if (first && !second && this.#unlessOk(first, 'mail')) return { answers: commands.map(() => first) }
    }
    const welcome = answers.slice(1).some((answer) => !isFailure(answer) && answer.code < 300)
    return welcome ? { answers, data: await this.#channel.command('DATA', data) } : { answers }
  }

  async #data(wire: Buffer, handed: () => (() => void) | undefined): Promise<SmtpReply | Failure> {
    const failed = await this.#channel.writeData(wire, this.#timeouts.block)
    if (failed) return failed
    const answered = handed()
    try {
      return await this.#channel.reply(this.#timeouts.finalDot)
    } finally {
      answered?.()
    }
  }

  /** The verdict of the answer to the final dot. Without an answer the result is unknown: the mail is tried again. */
  #outcome(answer: SmtpReply | Failure): Verdict {
    if (isFailure(answer)) {
      const text = `The connection ended after the message was sent: ${answer.failure}.`
      return { ...this.#own('deferred', '4.4.2', text, 'final dot'), handed: true }
    }
    const verdict = verdictOf(answer, { ...this.#here('final dot'), handed: true })
    return answer.code >= 300 && answer.code < 400 ? { ...verdict, kind: 'deferred' } : verdict
  }

  #here(stage: Stage) {
    const { cipher, dialogue, proof } = this.#channel
    return { stage, host: this.host, tls: this.tls, security: securityOf(this.#options, cipher, proof), dialogue }
  }

  #own(kind: 'deferred' | 'bounced', enhanced: string, text: string, stage: Stage): Verdict {
    return ownVerdict(kind, enhanced, text, this.#here(stage))
  }

  /** The verdict of an unexpected answer, or undefined for the expected answer: 2xx, or 354 for DATA. */
  #unlessOk(answer: SmtpReply | Failure, stage: Stage, hoped?: 354): Verdict | undefined {
    if (isFailure(answer)) return this.#own('deferred', '4.4.2', `${stage}: ${answer.failure}.`, stage)
    if (hoped ? answer.code === hoped : answer.code < 300) return undefined
    const verdict = verdictOf(answer, this.#here(stage))
    // RFC 5321 §4.5.3.1.10: 552 may mean too many recipients for one transaction.
    if (stage === 'rcpt' && answer.code === 552 && (answer.enhanced === null || answer.enhanced === '5.5.3'))
      return { ...verdict, kind: 'deferred' }
    // A positive answer at the wrong step is not accepted as one.
    return verdict.kind === 'delivered' ? { ...verdict, kind: 'deferred' } : verdict
  }
}

/** The line for the record. */
const securityOf = (
  { dnssec = NOT_ASKED, policy }: ConnectOptions,
  cipher: string | null = null,
  proof: TlsProof = 'none',
): string => writeSecurity({ cipher, policy: policy ?? null, proof, dnssec })

/**
 * Connects and opens a session, or returns a verdict with the reason. `signal` aborts it at any step. Never rejects.
 */
export async function openSession(options: ConnectOptions, signal?: AbortSignal): Promise<SmtpSession | Verdict> {
  const { address, host, localAddress, port, timeouts = TIMEOUTS } = options
  const channel = await openChannel({ host: address, port, localAddress }, timeouts.connect, signal)
  if (isFailure(channel)) {
    const text = `${host} [${address}] cannot be reached on port ${port}: ${channel.failure}.`
    const circumstance = { stage: 'connect', host, security: securityOf(options) } as const
    return channel.local ? waitsForUs(circumstance, text) : ownVerdict('deferred', '4.4.1', text, circumstance)
  }
  const session = new SmtpSession(channel, options)
  const end = (): void => session.destroy()
  signal?.addEventListener('abort', end)
  const verdict = await session.open(options)
  signal?.removeEventListener('abort', end)
  if (verdict) void session.quit()
  return verdict ?? session
}

// AUTH as a client (RFC 4954): PLAIN or LOGIN, whichever the server offers, never in clear text.

export interface Credentials {
  username: string
  password: string
}

const base64 = (text: string): string => Buffer.from(text).toString('base64')

/** Signs in. Returns a sentence when the sign-in failed. `timeout` (ms) is for each reply. */
export async function signIn(
  channel: Channel,
  capabilities: ReadonlyMap<string, string>,
  { password, username }: Credentials,
  timeout: number,
): Promise<string | undefined> {
  if (channel.tls === null) return 'The relay does not offer TLS, and credentials are never sent in clear text.'
  const mechanisms = (capabilities.get('AUTH') ?? '').split(' ')
  let answer: SmtpReply | Failure
  if (mechanisms.includes('PLAIN'))
    answer = await channel.command(`AUTH PLAIN ${base64(`\0${username}\0${password}`)}`, timeout, 'AUTH PLAIN (hidden)')
  else if (mechanisms.includes('LOGIN')) {
    answer = await channel.command('AUTH LOGIN', timeout)
    for (const secret of [username, password])
      if (!isFailure(answer) && answer.code === 334) answer = await channel.command(base64(secret), timeout, '(hidden)')
  } else return 'The relay offers neither AUTH PLAIN nor AUTH LOGIN.'
  if (!isFailure(answer) && answer.code < 300) return undefined
  const reason = isFailure(answer) ? answer.failure : `${answer.code} ${answer.text}`
  return `The relay rejected the credentials: ${reason}`
}
