// Passkeys (WebAuthn): the browser creates and uses them, the server verifies them here. A challenge is for one
// ceremony of one session or browser, lasts five minutes and counts once. It is signed instead of stored, so untrusted
// users cannot fill the memory. The device must verify the user (finger, face, PIN), so a passkey is two factors.
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { randomBytes } from 'node:crypto'
import { isIP } from 'node:net'
import { MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { messageOf } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { userByKey, type User } from './users.ts'

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

/** The user who adds a passkey, and the session. */
export interface Registering {
  user: Pick<User, 'key' | 'id' | 'email' | 'name'>
  /** The session, or the browser before there is one: a challenge is for it alone. */
  session: { id: string }
}

export class PasskeyCeremonies {
  readonly #deps: PasskeyDeps
  /** Challenges that were answered, with the time when they expire. */
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
   * Stores a new passkey if `permits` returns true in the same transaction. Returns 'known' if the passkey is already
   * stored, and undefined if it is not permitted any more or the browser's answer is not valid.
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
    if (!result?.verified || this.#isFramed(user, response)) return undefined
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

  /** Returns the challenge that the browser signs for a sign-in. The browser offers the user's passkeys itself. */
  async ask(browser: string): Promise<object> {
    const { generateAuthenticationOptions } = await library()
    const challenge = this.#challenge(browser)
    return generateAuthenticationOptions({ challenge, rpID: this.#host, userVerification: 'required' })
  }

  /** Returns the user whose passkey signed the answer, or undefined if the answer is not valid. */
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
    if (!result?.verified || this.#isFramed({ key: known.user_key }, response)) return undefined
    const counter = result.authenticationInfo.newCounter
    return store.write((tx) => {
      const user = tx.first(db.selectFrom('users').selectAll().where('key', '=', known.user_key))
      // WebAuthn §7.2, step 6: if the device names a user, it is the one whose passkey it is.
      const { userHandle } = response.response
      if (userHandle && userHandle !== Buffer.from(user?.id ?? '').toString('base64url'))
        return this.#unproven({ key: known.user_key }, new Error('The user handle is of another user.'))
      tx.run(db.updateTable('passkeys').set({ counter, last_used_at: clock.now() }).where('key', '=', known.key))
      return user
    })
  }

  get #origin(): string {
    return new URL(this.#deps.config.http.public_url).origin
  }

  get #host(): string {
    return new URL(this.#deps.config.http.public_url).hostname
  }

  /** A signed random challenge for one session or browser, with the time when it expires. */
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

  /**
   * Whether a verified answer was made in a frame of another site's page, where this server has no pages. The library
   * checks this only if the browser names that site.
   */
  #isFramed(user: Pick<User, 'key'>, { response }: { response: { clientDataJSON: string } }): boolean {
    const client: unknown = JSON.parse(Buffer.from(response.clientDataJSON, 'base64url').toString())
    if (!isObject(client) || client['crossOrigin'] !== true) return false
    this.#unproven(user, new Error('The passkey was used in a frame of another origin.'))
    return true
  }

  /** The library throws for a wrong answer and for an internal error, so the log has the message. */
  #unproven({ key }: Pick<User, 'key'>, thrown: unknown): undefined {
    this.#deps.log.warn('passkey_verification_failed', { user_key: key, reason: messageOf(thrown) })
  }
}

export function passkeysOf(reader: Reader, userKey: number): Passkey[] {
  return reader.all(db.selectFrom('passkeys').selectAll().where('user_key', '=', userKey).orderBy('key'))
}

/** Whether a user signs in with more than a password: with a second factor, or a passkey. */
export const hasStrongSignIn = (reader: Reader, userKey: number): boolean =>
  typeof userByKey(reader, userKey)?.sealed_totp === 'string' || passkeysOf(reader, userKey).length > 0

/** Removes a passkey. False when the user has no such passkey. */
export function removePasskey({ store }: { store: Store }, userKey: number, id: string): Promise<boolean> {
  return store.write(
    (tx) => tx.run(db.deleteFrom('passkeys').where('user_key', '=', userKey).where('id', '=', id)).changes > 0,
  )
}
