// The instance key: 32 random bytes in the data directory, readable only by the service. All signing and encryption for
// Postrider itself uses it, with a separate key derived for each purpose (HKDF, RFC 5869). Without it the encrypted
// DKIM keys cannot be read, so it must be in every backup.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'
import { closeSync, fsyncSync, linkSync, openSync, unlinkSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { codeOf, OperatorError } from './errors.ts'
import { whyUnread } from './file-faults.ts'
import { someRandom } from './ids.ts'
import { readNamed } from './plain-file.ts'
import { unusableError } from './unusable.ts'

/** The purposes that keys are derived for. */
export type Purpose =
  | 'seal'
  | 'return-path'
  | 'tracking'
  | 'unsubscribe'
  | 'session'
  | 'recipient'
  | 'client'
  | 'ledger'

export const KEY_FILE = 'instance.key'

const NONCE = 12
const TAG = 16

export class Keyring {
  readonly #keys = new Map<Purpose, Buffer>()
  readonly #root: Buffer

  constructor(root: Buffer) {
    this.#root = root
  }

  #key(purpose: Purpose): Buffer {
    let key = this.#keys.get(purpose)
    if (!key) {
      key = Buffer.from(hkdfSync('sha256', this.#root, '', `postrider ${purpose}`, 32))
      this.#keys.set(purpose, key)
    }
    return key
  }

  /** The derived key of a purpose, for code without the keyring (a worker thread). */
  derive(purpose: Exclude<Purpose, 'seal'>): Buffer {
    return this.#key(purpose)
  }

  /** HMAC-SHA-256 (RFC 2104), cut to `bytes`. */
  mac(purpose: Purpose, text: string | Uint8Array, bytes = 32): Buffer {
    return createHmac('sha256', this.#key(purpose)).update(text).digest().subarray(0, bytes)
  }

  /**
   * True when `mac` equals `this.mac` of the text in its full length. A shorter one could be guessed. Constant time.
   */
  proves(purpose: Purpose, text: string | Uint8Array, mac: Uint8Array, bytes = 32): boolean {
    const expected = this.mac(purpose, text, bytes)
    return expected.length === mac.length && timingSafeEqual(expected, mac)
  }

  /** Encrypts with AES-256-GCM. `label` binds the result to its row (the id). */
  seal(label: string, plain: string): Buffer {
    const nonce = someRandom(NONCE)
    const cipher = createCipheriv('aes-256-gcm', this.#key('seal'), nonce).setAAD(Buffer.from(label))
    const body = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()])
    return Buffer.concat([nonce, cipher.getAuthTag(), body])
  }

  /** Decrypts the result of `seal`. Throws when the key or the label differs. */
  open(label: string, box: Uint8Array): string {
    const bytes = Buffer.from(box)
    const decipher = createDecipheriv('aes-256-gcm', this.#key('seal'), bytes.subarray(0, NONCE)).setAAD(
      Buffer.from(label),
    )
    decipher.setAuthTag(bytes.subarray(NONCE, NONCE + TAG))
    return decipher.update(bytes.subarray(NONCE + TAG), undefined, 'utf8') + decipher.final('utf8')
  }
}

/** Reads the instance key of a data directory, or creates it if it is missing. Throws an OperatorError. */
export function openKeyring(dataDir: string): Keyring {
  const file = join(dataDir, KEY_FILE)
  const root = readKey(file) ?? makeKey(file)
  if (root.length !== 32)
    throw new OperatorError(`${file} is corrupt (it must contain 32 bytes in base64); restore it from a backup.`)
  return new Keyring(root)
}

function readKey(file: string): Buffer | undefined {
  try {
    return rootIn(file)
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return undefined
    throw (
      unusableError(thrown, file) ??
      new OperatorError(`${file} cannot be read (${whyUnread(thrown)}); check its permissions.`)
    )
  }
}

/** Returns the problem of the key file of a running server, or undefined if it has the server's key. */
export function keyFault(dataDir: string, keyring: Keyring): string | undefined {
  const file = join(dataDir, KEY_FILE)
  try {
    const proof = new Keyring(rootIn(file)).mac('seal', KEY_FILE)
    return keyring.proves('seal', KEY_FILE, proof) ? undefined : `${file} does not contain the key that the server uses`
  } catch (thrown) {
    return codeOf(thrown) === 'ENOENT'
      ? `${file} is missing: the server works until it stops, but backups fail`
      : `${file} cannot be read (${whyUnread(thrown)})`
  }
}

const rootIn = (file: string): Buffer => Buffer.from(readNamed(file).toString().trim(), 'base64')

// Writes a draft next to the file and links it into place, so that two processes that start at once use the same key.
function makeKey(file: string): Buffer {
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  try {
    const handle = openSync(draft, 'wx', 0o600)
    writeSync(handle, `${randomBytes(32).toString('base64')}\n`)
    fsyncSync(handle)
    closeSync(handle)
    try {
      linkSync(draft, file)
    } catch (thrown) {
      if (codeOf(thrown) !== 'EEXIST') throw thrown
    } finally {
      unlinkSync(draft)
    }
  } catch (thrown) {
    throw (
      unusableError(thrown, dirname(file)) ??
      new OperatorError(`${file} cannot be written (${codeOf(thrown)}); check its permissions and the disk.`)
    )
  }
  return readKey(file) ?? Buffer.alloc(0)
}
