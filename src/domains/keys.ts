// DKIM keys: 2048-bit RSA, two for each domain. The signing key signs. The standby key's record is published in
// advance, so that after a rotation receivers find the new key's record at once (D19, D21). Private keys are encrypted
// in the store. A retired key stays for 7 days, for mail still in the queue, and is then erased. A selector is never
// used twice.
import { createPublicKey, generateKeyPair, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { DAY } from '../base/clock.ts'
import { base32, newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import { pemOf } from '../base/certificate.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'

export type DkimKey = RowOf<'dkim_keys'>
export const KEY_RETENTION = 7 * DAY
/** The maximum number of decrypted keys in memory. */
const MAX_OPEN = 1000

/** The number of bytes that a selector and `._domainkey.` add before a domain's name. */
export const SELECTOR_BYTES = 'prxxxxxxxx._domainkey.'.length

export interface KeyPair {
  selector: string
  /** Base64 of the SPKI, as in `p=`. */
  publicKey: string
  /** PKCS #8 PEM. */
  privateKey: string
}

const generate = promisify(generateKeyPair)

export const newSelector = (): string => `pr${base32(randomBytes(5))}`

/** Makes a key pair with a new selector. Takes about 100 ms, outside the event loop. */
export async function makeKeyPair(modulusLength = 2048): Promise<KeyPair> {
  const { privateKey } = await generate('rsa', { modulusLength })
  const spki = createPublicKey(privateKey).export({ type: 'spki', format: 'der' })
  return {
    selector: newSelector(),
    publicKey: spki.toString('base64'),
    privateKey: pemOf(privateKey),
  }
}

/** Adds a key to a domain, with an encrypted private key. */
export function insertKey(
  tx: Tx,
  keyring: Keyring,
  { domainKey, now, pair, role }: { domainKey: number; role: 'signing' | 'standby'; pair: KeyPair; now: number },
): void {
  const id = newId(now)
  tx.run(
    db.insertInto('dkim_keys').values({
      id,
      domain_key: domainKey,
      selector: pair.selector,
      public_key: pair.publicKey,
      sealed_private_key: keyring.seal(id, pair.privateKey),
      role,
      created_at: now,
    }),
  )
}

/** The keys whose records must be published, the signing key first. */
export function publishedKeys(reader: Reader, domainKey: number): DkimKey[] {
  return reader.all(
    db
      .selectFrom('dkim_keys')
      .selectAll()
      .where('domain_key', '=', domainKey)
      .where('role', 'in', ['signing', 'standby'])
      .orderBy('role'),
  )
}

/** Keys that may still sign mail from before a rotation, while their records are in DNS. */
export function retiredKeys(reader: Reader, domainKey: number): DkimKey[] {
  return reader.all(
    db
      .selectFrom('dkim_keys')
      .selectAll()
      .where('domain_key', '=', domainKey)
      .where('role', '=', 'retired')
      .where('sealed_private_key', 'is not', null)
      .where('verified_at', 'is not', null),
  )
}

/** Promotes the standby key, retires the signing key, and makes `fresh` the standby key. */
export function rotateKeys(tx: Tx, keyring: Keyring, domainKey: number, fresh: KeyPair, now: number): void {
  const ofRole = (role: 'signing' | 'standby') =>
    db.updateTable('dkim_keys').where('domain_key', '=', domainKey).where('role', '=', role)
  tx.run(ofRole('signing').set({ role: 'retired', erase_at: now + KEY_RETENTION }))
  tx.run(ofRole('standby').set({ role: 'signing' }))
  insertKey(tx, keyring, { domainKey, role: 'standby', pair: fresh, now })
}

export function scheduleErasure(tx: Tx, domainKey: number, now: number): void {
  tx.run(
    db
      .updateTable('dkim_keys')
      .set({ erase_at: now + KEY_RETENTION })
      .where('domain_key', '=', domainKey)
      .where('erase_at', 'is', null),
  )
}

/** Erases private keys that have been retired long enough. Returns their number. */
export function eraseKeys(store: Store, now: number): Promise<number> {
  return store.write(
    (tx) =>
      tx.run(
        db
          .updateTable('dkim_keys')
          .set({ sealed_private_key: null, erase_at: null, role: 'retired' })
          .where('erase_at', '<=', now),
      ).changes,
  )
}

// The newest key, except the standby key, whose record the last check found, or else the signing key (D68).
const forSigning = statement<{ domain_key: number }>()((arg) =>
  db
    .selectFrom('dkim_keys as k')
    .innerJoin('domains as d', 'd.key', 'k.domain_key')
    .select(['k.key', 'k.selector', 'k.verified_at', 'd.name', 'd.checked_at'])
    .where('k.domain_key', '=', arg.domain_key)
    .where('k.role', 'in', ['signing', 'retired'])
    .where('k.sealed_private_key', 'is not', null)
    .orderBy('k.verified_at', 'desc')
    .orderBy((eb) => eb.case().when('k.role', '=', 'signing').then(0).else(1).end())
    .orderBy('k.key', 'desc')
    .limit(1),
)

export interface SigningKey {
  keyId: string
  selector: string
  /** PKCS #8 PEM. */
  privateKey: string
}

/**
 * The present signing key of a domain: `key`, the key to use. `unseen`, the DNS name of the missing record: the last
 * check found the record of no key, so no key is used (D68). Undefined when all keys are erased. A domain that was
 * never checked signs.
 */
export type SignedWith = { key: number } | { unseen: string } | undefined

export function signingKeyOf(reader: Reader, domainKey: number): SignedWith {
  const row = reader.fact(forSigning({ domain_key: domainKey }))
  if (!row) return undefined
  const { checked_at, key, name, selector, verified_at } = row
  return verified_at === null && checked_at !== null ? { unseen: `${selector}._domainkey.${name}` } : { key }
}

/** Decrypts keys and caches them in memory. Keys never change, only the selection of the signing key does. */
export class OpenKeys {
  readonly #reader: Reader
  readonly #keyring: Keyring
  readonly #open = new Map<number, SigningKey>()

  constructor(reader: Reader, keyring: Keyring) {
    this.#reader = reader
    this.#keyring = keyring
  }

  /** Drops all keys from memory, after keys were erased. */
  forget(): void {
    this.#open.clear()
  }

  /** The private key with a public id, or undefined if it cannot be decrypted. */
  pem(id: string): string | undefined {
    for (const opened of this.#open.values()) if (opened.keyId === id) return opened.privateKey
    const row = this.#reader.first(db.selectFrom('dkim_keys').select('key').where('id', '=', id))
    return row && this.get(row.key)?.privateKey
  }

  /** Undefined when the key has been erased. */
  get(key: number): SigningKey | undefined {
    const known = this.#open.get(key)
    if (known) return known
    const row = this.#reader.first(db.selectFrom('dkim_keys').selectAll().where('key', '=', key))
    if (!row?.sealed_private_key) return undefined
    const opened = {
      keyId: row.id,
      selector: row.selector,
      privateKey: this.#keyring.open(row.id, row.sealed_private_key),
    }
    if (this.#open.size >= MAX_OPEN) this.#open.clear()
    this.#open.set(key, opened)
    return opened
  }
}
