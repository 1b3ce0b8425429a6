// The instance key: 32 random bytes in the data directory, readable only by the service. All signing and sealing for
// Postrider itself uses it, with a separate key derived for each purpose (HKDF, RFC 5869). Without it the sealed DKIM
// keys cannot be read, so it must be in every backup.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'
import { closeSync, fsyncSync, linkSync, openSync, unlinkSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { codeOf, OperatorError } from './errors.ts'
import { whyUnread } from './file-faults.ts'
import { HmacKey } from './hmac.ts'
import { someRandom } from './ids.ts'
import { readNamed } from './plain-file.ts'
import { unusableError } from './unusable.ts'

/** The purposes that keys are derived for. */
export type Purpose = 'seal' | 'return-path' | 'tracking' | 'unsubscribe' | 'session' | 'recipient' | 'ledger'

export const KEY_FILE = 'instance.key'

const NONCE = 12
const TAG = 16

export class Keyring {
  readonly #keys = new Map<Purpose, Buffer>()
  readonly #macs = new Map<Purpose, HmacKey>()
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

  /** HMAC-SHA-256, cut to `bytes`. */
  mac(purpose: Purpose, text: string | Uint8Array, bytes = 32): Buffer {
    let key = this.#macs.get(purpose)
    if (!key) this.#macs.set(purpose, (key = new HmacKey(this.#key(purpose))))
    return Buffer.from(key.of(text, 'latin1'), 'latin1').subarray(0, bytes)
  }

  /**
   * True when `mac` equals `this.mac` of the text in its full length; a shorter one could be guessed. Constant time.
   */
  proves(purpose: Purpose, text: string | Uint8Array, mac: Uint8Array, bytes = 32): boolean {
    const expected = this.mac(purpose, text, bytes)
    return expected.length === mac.length && timingSafeEqual(expected, mac)
  }

  /** Encrypts with AES-256-GCM; `label` binds the result to its place (the id of a row). */
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

/** Reads the instance key of a data directory; creates it when it is missing. Throws an OperatorError. */
export function openKeyring(dataDir: string): Keyring {
  const file = join(dataDir, KEY_FILE)
  const root = readKey(file) ?? makeKey(file)
  if (root.length !== 32)
    throw new OperatorError(`${file} is damaged: it must hold 32 bytes in base64; put it back from a backup.`)
  return new Keyring(root)
}

function readKey(file: string): Buffer | undefined {
  try {
    return rootIn(file)
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return undefined
    throw unusableError(thrown, file) ?? new OperatorError(`${file} cannot be read (${whyUnread(thrown)}).`)
  }
}

/** What is wrong with the file of the key that a server runs with; undefined: nothing. */
export function keyFault(dataDir: string, keyring: Keyring): string | undefined {
  const file = join(dataDir, KEY_FILE)
  try {
    const proof = new Keyring(rootIn(file)).mac('seal', KEY_FILE)
    return keyring.proves('seal', KEY_FILE, proof) ? undefined : `${file} holds another key than the server runs with`
  } catch (thrown) {
    return codeOf(thrown) === 'ENOENT'
      ? `${file} is gone: the server goes on until it stops, and backups fail`
      : `${file} cannot be read (${whyUnread(thrown)})`
  }
}

const rootIn = (file: string): Buffer => Buffer.from(readNamed(file).toString().trim(), 'base64')

// Writes a draft beside the file and links it into place, so that two
// processes that start at once end with the same key.
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
    throw unusableError(thrown, dirname(file)) ?? new OperatorError(`${file} cannot be written (${codeOf(thrown)}).`)
  }
  return readKey(file) ?? Buffer.alloc(0)
}
