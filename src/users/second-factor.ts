// The second factor: six-digit codes that change every 30 seconds (RFC 6238), as authenticator apps generate them. The
// key is encrypted with the instance key. A code is valid once, and may be one step early or late. Ten recovery codes
// replace a lost device, once each. They are stored as a MAC, because a plain hash of 50 random bits can be searched.
import { Secret, TOTP } from 'otpauth'
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Store, Tx, Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { User } from './users.ts'
import { randomBytes } from 'node:crypto'
import { base32 } from '../base/ids.ts'

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

/** Whether a text has the form of a key (base32), which a QR code requires. */
export const isFactorKey = (secret: string): boolean => /^[A-Z2-7]{16,64}$/.test(secret)

const labelOf = ({ id }: Pick<User, 'id'>): string => `totp ${id}`

const totpOf = (secret: string, email = ''): TOTP =>
  new TOTP({ issuer: 'Postrider', label: email, algorithm: 'SHA1', digits: DIGITS, period: PERIOD, secret })

/** A key as the URI that authenticator apps read. */
export const uriOf = (secret: string, email: string): string => totpOf(secret, email).toString()

/**
 * New keys that are offered and not stored yet, in base32. A session sees the same one until it is turned on or ten
 * minutes have passed, because a reload of the page must not replace a key that was already scanned.
 */
export class OfferedKeys {
  readonly #clock: Pick<Clock, 'now'>
  /** By the ids of sessions, in the order of their expiry. */
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

/** Returns the time step of a code, or undefined if the code is wrong or its step is not later than `after`. */
function stepOf(secret: string, code: string, now: number, after: number): number | undefined {
  const delta = totpOf(secret).validate({ token: code.replaceAll(/\s/g, ''), timestamp: now, window: 1 })
  if (delta === null) return undefined
  const step = Math.floor(now / SECOND / PERIOD) + delta
  return step > after ? step : undefined
}

/** Turns the second factor on and returns recovery codes, or undefined if the code of the new key is wrong. */
export async function turnOn(
  { clock, keyring, store }: FactorDeps,
  user: Pick<User, 'key' | 'id'>,
  secret: string,
  code: string,
): Promise<string[] | undefined> {
  const now = clock.now()
  if (!isFactorKey(secret)) return undefined
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

/** Whether a code of the app or a recovery code is valid. It cannot be used again. */
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

const COUNT = 10
/** Ten letters of base32. */
const LETTERS = 10

type CodeOwner = Pick<User, 'key'>

const macOf = (keyring: Keyring, { key }: CodeOwner, code: string): Buffer =>
  keyring.mac('session', JSON.stringify(['recovery', key, code]))

/** Generates new codes such as "abcde-fghij". Earlier codes become invalid. */
function makeRecoveryCodes(tx: Tx, keyring: Keyring, user: CodeOwner): string[] {
  forgetRecoveryCodes(tx, user)
  return Array.from({ length: COUNT }, () => {
    const code = base32(randomBytes(7)).slice(0, LETTERS)
    tx.run(db.insertInto('recovery_codes').values({ mac: macOf(keyring, user, code), user_key: user.key }))
    return `${code.slice(0, LETTERS / 2)}-${code.slice(LETTERS / 2)}`
  })
}

export const newRecoveryCodes = (
  { keyring, store }: { keyring: Keyring; store: Store },
  user: CodeOwner,
): Promise<string[]> => store.write((tx) => makeRecoveryCodes(tx, keyring, user))

function forgetRecoveryCodes(tx: Tx, { key }: CodeOwner): void {
  tx.run(db.deleteFrom('recovery_codes').where('user_key', '=', key))
}

/** Uses a code, in either case and with any white space or hyphens. Returns false if it is not valid. */
function useRecoveryCode(tx: Tx, keyring: Keyring, user: CodeOwner, given: string): boolean {
  const code = given.toLowerCase().replaceAll(/[\s-]/g, '')
  if (!/^[a-z2-7]{10}$/.test(code)) return false
  const used = db.deleteFrom('recovery_codes').where('mac', '=', macOf(keyring, user, code))
  return tx.run(used.where('user_key', '=', user.key)).changes > 0
}

export const recoveryCodesLeft = (reader: Reader, { key }: CodeOwner): number =>
  reader.all(db.selectFrom('recovery_codes').select('mac').where('user_key', '=', key)).length
