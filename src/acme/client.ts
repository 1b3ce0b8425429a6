// An ACME client (RFC 8555) for one account: gets a certificate for one name by HTTP-01 or TLS-ALPN-01, and the time to
// renew it (ARI, RFC 9773). It tries everything once. The caller (renewals.ts) repeats.
import { retryAfter } from '../base/retry.ts'
import {
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  sign,
  type KeyObject,
} from 'node:crypto'
import { must } from '../base/errors.ts'
import { type Clock, DAY, SECOND } from '../base/clock.ts'
import { pemOf } from '../base/certificate.ts'
import { NoAnswer, type CaAnswer, type Fetch } from './http.ts'
import {
  isAddress,
  isAuthorization,
  isDirectory,
  isOrder,
  isRenewal,
  jsonOf,
  problemOf,
  type Directory,
  type AcmeProblem,
} from './documents.ts'
import { certificateRequest } from './request.ts'

/**
 * A refusal of a certificate authority: its text, its type (RFC 8555 §6.7), and the time of the next allowed request.
 */
export class AcmeRefusal extends Error {
  readonly kind: string
  /** Milliseconds from now, or undefined if the authority gives no time. */
  readonly retryAfter: number | undefined

  constructor(kind: string, detail: string, retryAfter?: number) {
    super(detail)
    this.kind = kind
    this.retryAfter = retryAfter
  }
}

/** An account at one directory, as it is stored. */
export interface AcmeAccount {
  directory: string
  /** PKCS #8 PEM of a key of P-256. */
  key: string
  /** The account's URL at the authority. */
  url: string
}

export interface AcmeOptions {
  directory: string
  email: string
  /** External account binding (RFC 8555 §7.3.4). */
  binding?: { id: string; key: string } | undefined
  fetch: Fetch
  clock: Clock
}

/** The challenge type: over port 80 (RFC 8555 §8.3), or in the handshake on port 443 (RFC 8737). */
export type ChallengeType = 'http-01' | 'tls-alpn-01'

/** The proof to an authority that this server controls a name. */
export interface Proof {
  way: ChallengeType
  name: string
  token: string
  /** The content of /.well-known/acme-challenge/TOKEN (RFC 8555 §8.3). */
  keyAuthorization: string
}

/** How often a request is repeated after its nonce was rejected (RFC 8555 §6.5). */
const NONCES = 20
/** The interval at which a pending order or authorization is polled, and the most polls. */
const POLL = 2 * SECOND
const POLLS = 45

export class AcmeClient {
  readonly #options: AcmeOptions
  #directory: Directory | undefined
  #account: AcmeAccount | undefined
  #nonce: string | undefined

  constructor(options: AcmeOptions, account?: AcmeAccount) {
    this.#options = options
    if (account?.directory === options.directory) this.#account = account
  }

  /** Returns the account. Creates it if it is missing, or if the authority has deleted it. */
  async account(): Promise<AcmeAccount> {
    if (this.#account) return this.#account
    const { binding, directory, email } = this.#options
    const { newAccount } = await this.#index()
    const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
    const payload = {
      termsOfServiceAgreed: true,
      ...(email === '' ? {} : { contact: [`mailto:${email}`] }),
      ...(binding ? { externalAccountBinding: bound(binding, newAccount, key) } : {}),
    }
    const answer = await this.#post(newAccount, payload, { key })
    const url = answer.headers['location']
    if (!isAddress(url)) throw new NoAnswer(`${directory} returned no URL of the account`)
    this.#account = { directory, url, key: pemOf(key) }
    return this.#account
  }

  /**
   * Gets a certificate chain (PEM) for a name with this key. `ways`: the challenge types that are possible, the
   * preferred one first. `show` publishes the proof. It returns a function that removes the proof.
   */
  async certificate(
    name: string,
    key: KeyObject,
    ways: readonly ChallengeType[],
    show: (proof: Proof) => () => void,
  ): Promise<string> {
    await this.account()
    const { newOrder } = await this.#index()
    const made = await this.#post(newOrder, { identifiers: [{ type: 'dns', value: name }] })
    const url = made.headers['location']
    if (!isAddress(url)) throw new NoAnswer('the order has no URL')
    const order = read(made, isOrder)
    for (const authorization of order.authorizations) await this.#prove(name, authorization, ways, show)
    await this.#until(url, isOrder, ({ status }) => status !== 'pending')
    await this.#post(order.finalize, { csr: certificateRequest(name, key).toString('base64url') })
    const done = await this.#until(url, isOrder, ({ status }) => status === 'valid' || status === 'invalid')
    if (done.certificate === undefined) throw refusalOf(done.error, `The CA rejected the order for ${name}.`)
    const { text } = await this.#post(done.certificate, '')
    return text
  }

  /** Returns the period in which the CA suggests a renewal (ARI), or undefined. `id` is that of RFC 9773 §4.1. */
  async renewalWindow(id: string): Promise<{ start: number; end: number } | undefined> {
    const { renewalInfo } = await this.#index()
    if (renewalInfo === undefined) return undefined
    const answer = await this.#options.fetch(`${renewalInfo}/${id}`)
    if (answer.status !== 200) return undefined
    const { suggestedWindow } = read(answer, isRenewal)
    const [start, end] = [Date.parse(suggestedWindow?.start ?? ''), Date.parse(suggestedWindow?.end ?? '')]
    return Number.isNaN(start) || Number.isNaN(end) || end < start ? undefined : { start, end }
  }

  async #prove(
    name: string,
    url: string,
    ways: readonly ChallengeType[],
    show: (proof: Proof) => () => void,
  ): Promise<void> {
    const authorization = read(await this.#post(url, ''), isAuthorization)
    if (authorization.status === 'valid') return
    const { challenges } = authorization
    const way = ways.find((each) => challenges.some(({ type }) => type === each))
    const challenge = challenges.find(({ type }) => type === way)
    if (!way || !challenge)
      throw new AcmeRefusal(
        'unsupported',
        `The CA cannot validate ${name}: it offers ${challenges.map(({ type }) => type).join(', ')}, but this server supports ${ways.join(', ') || 'no challenge ("acme.listen", "http.tls_listen")'}.`,
      )
    const keyAuthorization = `${challenge.token}.${thumbprint(this.#key())}`
    const hide = show({ way, name, token: challenge.token, keyAuthorization })
    try {
      await this.#post(challenge.url, {})
      const judged = await this.#until(url, isAuthorization, ({ status }) => status !== 'pending')
      if (judged.status === 'valid') return
      const failed = judged.challenges.find(({ error }) => error !== undefined)
      throw refusalOf(failed?.error, `The CA could not validate ${name} (${judged.status}).`)
    } finally {
      hide()
    }
  }

  async #until<T>(url: string, is: (value: unknown) => value is T, over: (state: T) => boolean): Promise<T> {
    const { clock } = this.#options
    for (let polls = 0; polls < POLLS; polls++) {
      const answer = await this.#post(url, '')
      const state = read(answer, is)
      if (over(state)) return state
      const wait = Math.min(waitOf(answer, clock.now()) ?? POLL, 10 * POLL)
      await new Promise<void>((resolve) => clock.wake(clock.now() + wait, resolve))
    }
    throw new NoAnswer('the CA takes too long')
  }

  get #known() {
    return must(this.#account, 'The account at the authority')
  }

  #key(): KeyObject {
    return createPrivateKey(this.#known.key)
  }

  async #index(): Promise<Directory> {
    if (this.#directory) return this.#directory
    const answer = await this.#options.fetch(this.#options.directory)
    if (answer.status !== 200)
      throw new NoAnswer(`${this.#options.directory} returns ${answer.status}; is it an ACME directory?`)
    const index = jsonOf(answer)
    if (!isDirectory(index)) throw new NoAnswer(`${this.#options.directory} is not an ACME directory`)
    this.#directory = index
    return index
  }

  /** Sends a signed request (RFC 8555 §6.2). The payload `''` only reads (POST-as-GET). */
  async #post(url: string, payload: object | '', by?: { key: KeyObject }): Promise<CaAnswer> {
    for (let tries = 1; ; tries++) {
      const nonce = this.#nonce ?? (await this.#freshNonce())
      this.#nonce = undefined
      const key = by?.key ?? this.#key()
      const who = by ? { jwk: jwkOf(key) } : { kid: this.#known.url }
      const body = jws({ alg: 'ES256', nonce, url, ...who }, payload, (input) =>
        sign('sha256', input, { key, dsaEncoding: 'ieee-p1363' }),
      )
      const answer = await this.#options.fetch(url, { method: 'POST', body: JSON.stringify(body) })
      this.#nonce = nonceIn(answer)
      if (answer.status < 400) return answer
      const refusal = refusalFrom(answer, this.#options.clock.now())
      if (refusal.kind === 'accountDoesNotExist') this.#account = undefined
      if (refusal.kind !== 'badNonce' || tries === NONCES) throw refusal
    }
  }

  async #freshNonce(): Promise<string> {
    const { newNonce } = await this.#index()
    const nonce = nonceIn(await this.#options.fetch(newNonce, { method: 'HEAD' }))
    if (nonce === undefined) throw new NoAnswer('the CA returned no nonce')
    return nonce
  }
}

const base64url = (text: string): string => Buffer.from(text).toString('base64url')

function jws(header: object, payload: object | '', signed: (input: Buffer) => Buffer): object {
  const [head, body] = [base64url(JSON.stringify(header)), payload === '' ? '' : base64url(JSON.stringify(payload))]
  return { protected: head, payload: body, signature: signed(Buffer.from(`${head}.${body}`)).toString('base64url') }
}

/** The public key as a JWK, its members in the order of RFC 7638 §3. */
function jwkOf(key: KeyObject): { crv: string; kty: string; x: string; y: string } {
  const { crv, kty, x, y } = createPublicKey(key).export({ format: 'jwk' })
  if (crv === undefined || kty === undefined || x === undefined || y === undefined)
    throw new Error('The key is not on an elliptic curve.')
  return { crv, kty, x, y }
}

const thumbprint = (key: KeyObject): string =>
  createHash('sha256')
    .update(JSON.stringify(jwkOf(key)))
    .digest('base64url')

const bound = ({ id, key }: { id: string; key: string }, url: string, account: KeyObject): object =>
  jws({ alg: 'HS256', kid: id, url }, jwkOf(account), (input) =>
    createHmac('sha256', Buffer.from(key, 'base64url')).update(input).digest(),
  )

/** The document in an answer. Throws NoAnswer when it has another form. */
function read<T>(answer: CaAnswer, is: (value: unknown) => value is T): T {
  const document = jsonOf(answer)
  if (!is(document)) throw new NoAnswer('its response does not have the form of RFC 8555')
  return document
}

/** The nonce for the next request (RFC 8555 §6.5). */
const nonceIn = ({ headers }: CaAnswer): string | undefined => headers['replay-nonce']?.toString()

/** A CA can request waits longer than a day. */
const waitOf = ({ headers }: CaAnswer, now: number): number | undefined =>
  retryAfter(headers['retry-after']?.toString(), now, 100 * DAY)

function refusalOf(error: AcmeProblem | undefined, otherwise: string): AcmeRefusal {
  return new AcmeRefusal((error?.type ?? '').replace(/^urn:ietf:params:acme:error:/, ''), error?.detail ?? otherwise)
}

function refusalFrom(answer: CaAnswer, now: number): AcmeRefusal {
  const { kind, message } = refusalOf(problemOf(answer), `The CA returns ${answer.status}.`)
  return new AcmeRefusal(kind, message, waitOf(answer, now))
}
