// Passkeys (WebAuthn): the browser creates and uses them, the server verifies them here. A challenge is for one
// ceremony, lasts five minutes, and is kept only in memory: after a restart the person presses the button again.
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/tables.ts'
import type { User } from './users.ts'

export type Passkey = RowOf<'passkeys'>

/** Loaded at the first ceremony: the library has nine hundred files, and most commands do not need it. */
const library = (): Promise<typeof import('@simplewebauthn/server')> => import('@simplewebauthn/server')

const LASTS = 5 * MINUTE
const MAX_CHALLENGES = 10_000

export interface PasskeyDeps {
  store: Store
  clock: Clock
  config: { http: Pick<Config['http'], 'public_url'> }
}

export class Passkeys {
  readonly #deps: PasskeyDeps
  /** Challenges without an answer yet, with the time of their creation. */
  readonly #challenges = new Map<string, number>()

  constructor(deps: PasskeyDeps) {
    this.#deps = deps
  }

  /** The options with which the browser creates a new passkey. */
  async register(user: Pick<User, 'key' | 'id' | 'email' | 'name'>): Promise<object> {
    const { generateRegistrationOptions } = await library()
    const options = await generateRegistrationOptions({
      rpName: 'Postrider',
      rpID: this.#host,
      userID: new Uint8Array(Buffer.from(user.id)),
      userName: user.email,
      userDisplayName: user.name,
      attestationType: 'none',
      excludeCredentials: passkeysOf(this.#deps.store, user.key).map(({ id }) => ({ id })),
      authenticatorSelection: { residentKey: 'required', userVerification: 'preferred' },
    })
    this.#remember(options.challenge)
    return options
  }

  /** Stores a new passkey. False when the browser's answer is not valid. */
  async registered(user: Pick<User, 'key'>, name: string, response: RegistrationResponseJSON): Promise<boolean> {
    const { clock, store } = this.#deps
    const { verifyRegistrationResponse } = await library()
    const result = await verifyRegistrationResponse({
      response,
      expectedChallenge: (challenge) => this.#takes(challenge),
      expectedOrigin: this.#origin,
      expectedRPID: this.#host,
      requireUserVerification: false,
    }).catch(() => undefined)
    if (!result?.verified) return false
    const { credential } = result.registrationInfo
    await store.write((tx) =>
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
      ),
    )
    return true
  }

  /** The challenge that the browser signs for a sign-in; the browser offers the person's passkeys itself. */
  async ask(): Promise<object> {
    const { generateAuthenticationOptions } = await library()
    const options = await generateAuthenticationOptions({ rpID: this.#host, userVerification: 'preferred' })
    this.#remember(options.challenge)
    return options
  }

  /** The user whose passkey signed the answer; undefined when the answer is not valid. */
  async answered(response: AuthenticationResponseJSON): Promise<User | undefined> {
    const { clock, store } = this.#deps
    const known =
      typeof response?.id === 'string'
        ? store.first(db.selectFrom('passkeys').selectAll().where('id', '=', response.id))
        : undefined
    if (!known) return undefined
    const { verifyAuthenticationResponse } = await library()
    const result = await verifyAuthenticationResponse({
      response,
      expectedChallenge: (challenge) => this.#takes(challenge),
      expectedOrigin: this.#origin,
      expectedRPID: this.#host,
      requireUserVerification: false,
      credential: { id: known.id, publicKey: new Uint8Array(known.public_key), counter: known.counter },
    }).catch(() => undefined)
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

  #remember(challenge: string): void {
    const now = this.#deps.clock.now()
    for (const [known, at] of this.#challenges)
      if (now - at > LASTS || this.#challenges.size >= MAX_CHALLENGES) this.#challenges.delete(known)
    this.#challenges.set(challenge, now)
  }

  /** Whether a challenge is from this server and has not expired. It can be used once. */
  #takes(challenge: string): boolean {
    const at = this.#challenges.get(challenge)
    this.#challenges.delete(challenge)
    return at !== undefined && this.#deps.clock.now() - at <= LASTS
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
