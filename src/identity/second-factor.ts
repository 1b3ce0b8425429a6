// The second factor: codes of six digits that change every 30 seconds (RFC 6238), as authenticator apps make them. The
// key is encrypted under the instance key. A code is valid once, and may be one step early or late.
import { Secret, TOTP } from 'otpauth'
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import { forgetRecoveryCodes, makeRecoveryCodes, useRecoveryCode } from './recovery-codes.ts'
import type { User } from './users.ts'

const PERIOD = 30
const DIGITS = 6
const KEY_BYTES = 20
const OFFERED = 10 * MINUTE
const MOST_OFFERED = 1000

export interface FactorDeps {
  store: Store
  clock: Clock
  keyring: Keyring
}

const labelOf = ({ id }: Pick<User, 'id'>): string => `totp ${id}`

const totpOf = (secret: string, email = ''): TOTP =>
  new TOTP({ issuer: 'Postrider', label: email, algorithm: 'SHA1', digits: DIGITS, period: PERIOD, secret })

/** A key as the URI that authenticator apps read. */
export const uriOf = (secret: string, email: string): string => totpOf(secret, email).toString()

/**
 * New keys that are offered and not stored yet, in base32. A session sees the same one until it is turned on or ten
 * minutes have passed: a reload of the page must not replace a key that was scanned already.
 */
export class OfferedKeys {
  readonly #clock: Pick<Clock, 'now'>
  /** By the ids of sessions, in the order of their end. */
  readonly #offered = new Map<string, { secret: string; until: number }>()

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  of(session: string): string {
    const now = this.#clock.now()
    for (const [each, { until }] of this.#offered) if (until <= now) this.#offered.delete(each)
    const known = this.#offered.get(session)
    if (known) return known.secret
    const [oldest] = this.#offered.keys()
    if (oldest !== undefined && this.#offered.size >= MOST_OFFERED) this.#offered.delete(oldest)
    const secret = new Secret({ size: KEY_BYTES }).base32
    this.#offered.set(session, { secret, until: now + OFFERED })
    return secret
  }

  forget(session: string): void {
    this.#offered.delete(session)
  }
}

/** The time step of a code; undefined when the code is wrong for now, or its step is not later than `after`. */
function stepOf(secret: string, code: string, now: number, after: number): number | undefined {
  const delta = totpOf(secret).validate({ token: code.replaceAll(/\s/g, ''), timestamp: now, window: 1 })
  if (delta === null) return undefined
  const step = Math.floor(now / SECOND / PERIOD) + delta
  return step > after ? step : undefined
}

/** Turns the second factor on, after a right code of the new key. Returns recovery codes; undefined: a wrong code. */
export async function turnOn(
  { clock, keyring, store }: FactorDeps,
  user: Pick<User, 'key' | 'id'>,
  secret: string,
  code: string,
): Promise<string[] | undefined> {
  const now = clock.now()
  if (!/^[A-Z2-7]{16,64}$/.test(secret)) return undefined
  const step = stepOf(secret, code, now, 0)
  if (step === undefined) return undefined
  const sealed_totp = keyring.seal(labelOf(user), secret)
  return store.write((tx) => {
    tx.run(db.updateTable('users').set({ sealed_totp, totp_step: step, updated_at: now }).where('key', '=', user.key))
    return makeRecoveryCodes(tx, keyring, user)
  })
}

export const turnOff = ({ clock, store }: FactorDeps, user: Pick<User, 'key'>): Promise<void> =>
  store.write((tx) => forgetFactor(tx, user, clock.now()))

/** Removes the second factor with its recovery codes, inside a transaction. */
export function forgetFactor(tx: Tx, user: Pick<User, 'key'>, now: number): void {
  forgetRecoveryCodes(tx, user)
  tx.run(
    db.updateTable('users').set({ sealed_totp: null, totp_step: null, updated_at: now }).where('key', '=', user.key),
  )
}

/** Whether a code is right now, of the app or a recovery code; a right code cannot be used again. */
export function useCode(
  { clock, keyring, store }: FactorDeps,
  user: Pick<User, 'key'>,
  code: string,
): Promise<boolean> {
  const now = clock.now()
  return store.write((tx) => {
    const found = tx.first(
      db.selectFrom('users').select(['id', 'sealed_totp', 'totp_step']).where('key', '=', user.key),
    )
    if (!found?.sealed_totp) return false
    if (useRecoveryCode(tx, keyring, user, code)) return true
    const step = stepOf(keyring.open(labelOf(found), found.sealed_totp), code, now, found.totp_step ?? 0)
    if (step === undefined) return false
    tx.run(db.updateTable('users').set({ totp_step: step }).where('key', '=', user.key))
    return true
  })
}
