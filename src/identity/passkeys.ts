// Passkeys (WebAuthn): the browser creates and uses them, the server verifies them here. A challenge is for one
// ceremony of one session or browser, lasts five minutes and counts once. It is signed, not stored: strangers who ask
// for many cost nothing. The device must verify the person (finger, face, PIN): a passkey stands for two factors.
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { randomBytes } from 'node:crypto'
import { isIP } from 'node:net'
import { MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { messageOf } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../schema/tables.ts'
import type { User } from './users.ts'

export type Passkey = RowOf<'passkeys'>

/** Loaded at the first ceremony: the library has nine hundred files, and most commands do not need it. */
const library = (): Promise<typeof import('@simplewebauthn/server')> => import('@simplewebauthn/server')

const LASTS = 5 * MINUTE

export interface PasskeyDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  log: Log
  config: { http: Pick<Config['http'], 'public_url'> }
}

/** Whether browsers use passkeys at this address: it needs a name, and https or "localhost" (WebAuthn §5.1.3). */
export function passkeysWork({ public_url }: Pick<Config['http'], 'public_url'>): boolean {
  const { hostname, protocol } = new URL(public_url)
  if (isIP(hostname.replace(/^\[|\]$/g, '')) !== 0) return false
  return protocol === 'https:' || /(?:^|\.)localhost$/.test(hostname)
}

const textOf = (...words: string[]): string => JSON.stringify(['passkey', ...words])

/** Who adds a passkey, in which session. */
export interface Registering {
  user: Pick<User, 'key' | 'id' | 'email' | 'name'>
  /** The session, or the browser before there is one: a challenge is for it alone. */
  session: { id: string }
}

export class PasskeyCeremonies {
  readonly #deps: PasskeyDeps
  /** Challenges that were answered, with the time at which they end. */
  readonly #used = new Map<string, number>()

  constructor(deps: PasskeyDeps) {
    this.#deps = deps
  }

  /** The options with which the browser creates a new passkey. */
  async register({ session, user }: Registering): Promise<object> {
    const { generateRegistrationOptions } = await library()
    return generateRegistrationOptions({
      challenge: this.#challenge(session.id),
      rpName: 'Postrider',
      rpID: this.#host,
      userID: new Uint8Array(Buffer.from(user.id)),
      userName: user.email,
      userDisplayName: user.name,
      attestationType: 'none',
      excludeCredentials: passkeysOf(this.#deps.store, user.key).map(({ id }) => ({ id })),
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    })
  }

  /**
   * Stores a new passkey when `permits` says yes in the same transaction: 'known' when somebody has it already,
   * undefined when it is not permitted any more, or the browser's answer is not valid.
   */
  async registered(
    { session, user }: Registering,
    name: string,
    response: RegistrationResponseJSON,
    permits: (tx: Tx) => boolean = () => true,
  ): Promise<'added' | 'known' | undefined> {
    const { clock, store } = this.#deps
    const { verifyRegistrationResponse } = await library()
    const result = await verifyRegistrationResponse({
      response,
      expectedChallenge: (challenge) => this.#takes(session.id, challenge),
      expectedOrigin: this.#origin,
      expectedRPID: this.#host,
      requireUserVerification: true,
    }).catch((thrown: unknown) => this.#unproven(user, thrown))
    if (!result?.verified) return undefined
    const { credential } = result.registrationInfo
    return store.write((tx) => {
      if (tx.first(db.selectFrom('passkeys').select('key').where('id', '=', credential.id))) return 'known'
      if (!permits(tx)) return undefined
      tx.run(
        db.insertInto('passkeys').values({
          id: credential.id,
          user_key: user.key,
          name: name.trim().slice(0, 100) || 'Passkey',
          public_key: credential.publicKey,
          counter: credential.counter,
          transports: JSON.stringify(credential.transports ?? []),
          created_at: clock.now(),
        }),
      )
      return 'added'
    })
  }

  /** The challenge that the browser signs for a sign-in; the browser offers the person's passkeys itself. */
  async ask(browser: string): Promise<object> {
    const { generateAuthenticationOptions } = await library()
    const challenge = this.#challenge(browser)
    return generateAuthenticationOptions({ challenge, rpID: this.#host, userVerification: 'required' })
  }

  /** The user whose passkey signed the answer; undefined when the answer is not valid. */
  async answered(browser: string, response: AuthenticationResponseJSON): Promise<User | undefined> {
    const { clock, store } = this.#deps
    const known =
      typeof response?.id === 'string'
        ? store.first(db.selectFrom('passkeys').selectAll().where('id', '=', response.id))
        : undefined
    if (!known) return undefined
    const { verifyAuthenticationResponse } = await library()
    const result = await verifyAuthenticationResponse({
      response,
      expectedChallenge: (challenge) => this.#takes(browser, challenge),
      expectedOrigin: this.#origin,
      expectedRPID: this.#host,
      requireUserVerification: true,
      credential: { id: known.id, publicKey: new Uint8Array(known.public_key), counter: known.counter },
    }).catch((thrown: unknown) => this.#unproven({ key: known.user_key }, thrown))
    if (!result?.verified) return undefined
    const counter = result.authenticationInfo.newCounter
    return store.write((tx) => {
      tx.run(db.updateTable('passkeys').set({ counter, last_used_at: clock.now() }).where('key', '=', known.key))
      return tx.first(db.selectFrom('users').selectAll().where('key', '=', known.user_key))
    })
  }

  get #origin(): string {
    return new URL(this.#deps.config.http.public_url).origin
  }

  get #host(): string {
    return new URL(this.#deps.config.http.public_url).hostname
  }

  /** A challenge for one session or browser: random, with the time at which it ends, and signed. */
  #challenge(owner: string): Uint8Array<ArrayBuffer> {
    const nonce = randomBytes(16).toString('base64url')
    const until = String(this.#deps.clock.now() + LASTS)
    const mac = this.#deps.keyring.mac('session', textOf(owner, nonce, until)).toString('base64url')
    return new Uint8Array(Buffer.from(`${nonce}.${until}.${mac}`))
  }

  /** Whether a challenge (base64url) is from this server, for this owner, and has not expired. It counts once. */
  #takes(owner: string, challenge: string): boolean {
    const now = this.#deps.clock.now()
    const [nonce = '', until = '', mac = ''] = Buffer.from(challenge, 'base64url').toString('latin1').split('.')
    const ours = this.#deps.keyring.proves('session', textOf(owner, nonce, until), Buffer.from(mac, 'base64url'))
    for (const [known, end] of this.#used) if (end <= now) this.#used.delete(known)
    if (!ours || now >= Number(until) || this.#used.has(nonce)) return false
    this.#used.set(nonce, Number(until))
    return true
  }

  /** The library throws for a wrong answer as it does for a fault of its own: the log tells them apart. */
  #unproven({ key }: Pick<User, 'key'>, thrown: unknown): undefined {
    this.#deps.log.warn('passkey not proven', { user_key: key, reason: messageOf(thrown) })
  }
}

export function passkeysOf(reader: Reader, userKey: number): Passkey[] {
  return reader.all(db.selectFrom('passkeys').selectAll().where('user_key', '=', userKey).orderBy('key'))
}

/** Removes a passkey. False when the user has no such passkey. */
export function removePasskey({ store }: { store: Store }, userKey: number, id: string): Promise<boolean> {
  return store.write(
    (tx) => tx.run(db.deleteFrom('passkeys').where('user_key', '=', userKey).where('id', '=', id)).changes > 0,
  )
}
