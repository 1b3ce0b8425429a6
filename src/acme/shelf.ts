// Stores the certificates of an authority: <data_dir>/acme/NAME.crt (the chain), NAME.key, NAME.next.key, and NAME.json
// with the time of renewal; also the account. A name keeps its key across renewals, and the next key is made in
// advance, so that TLSA records can name both.
import { createPrivateKey, generateKeyPairSync, X509Certificate, type KeyObject } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Certificate } from '../base/certificate.ts'
import { syncPath } from '../base/durable.ts'
import type { Account } from './client.ts'

/** The progress of a name's renewals. Times in ms. */
export interface Progress {
  /** When to renew; null: not known yet. */
  renewAt: number | null
  /** When the authority was last asked for its renewal time. */
  askedAt: number | null
  failures: number
  /** No try before this time. */
  retryAt: number
  error: string | null
}

const NEW: Progress = { renewAt: null, askedAt: null, failures: 0, retryAt: 0, error: null }

export class Shelf {
  readonly #directory: string

  constructor(dataDir: string) {
    this.#directory = join(dataDir, 'acme')
  }

  /** The file of a name's chain, whether it exists or not. */
  chainFile(name: string): string {
    return this.#path(`${name}.crt`)
  }

  /** Names with a certificate. */
  names(): string[] {
    try {
      return readdirSync(this.#directory).flatMap((file) => (file.endsWith('.crt') ? [file.slice(0, -4)] : []))
    } catch {
      return []
    }
  }

  /** Undefined when there is none, or it cannot be read or does not match its key. */
  certificate(name: string): (Certificate & { read: X509Certificate }) | undefined {
    const [cert, key] = [this.#text(`${name}.crt`), this.#text(`${name}.key`)]
    if (cert === undefined || key === undefined) return undefined
    try {
      const read = new X509Certificate(cert)
      return read.checkPrivateKey(createPrivateKey(key)) ? { cert, key, read } : undefined
    } catch {
      return undefined
    }
  }

  /** The key for a name's next certificate; created, with the one after it, when it is missing. */
  key(name: string): KeyObject {
    for (const file of [`${name}.key`, `${name}.next.key`])
      if (this.#text(file) === undefined) this.#write(file, fresh())
    return createPrivateKey(this.#text(`${name}.key`)!)
  }

  /** The key after the present one; undefined before the first order. */
  nextKey(name: string): KeyObject | undefined {
    const text = this.#text(`${name}.next.key`)
    return text === undefined ? undefined : createPrivateKey(text)
  }

  keep(name: string, chain: string): void {
    this.#write(`${name}.crt`, chain)
  }

  progress(name: string): Progress {
    return { ...NEW, ...(this.#json(`${name}.json`) as Partial<Progress> | undefined) }
  }

  note(name: string, progress: Progress): void {
    this.#write(`${name}.json`, JSON.stringify(progress))
  }

  account(): Account | undefined {
    return this.#json('account.json') as Account | undefined
  }

  keepAccount(account: Account): void {
    this.#write('account.json', JSON.stringify(account))
  }

  #path(file: string): string {
    return join(this.#directory, file)
  }

  #text(file: string): string | undefined {
    try {
      return readFileSync(this.#path(file), 'utf8')
    } catch {
      return undefined
    }
  }

  #json(file: string): unknown {
    try {
      return JSON.parse(this.#text(file) ?? '') as unknown
    } catch {
      return undefined
    }
  }

  /** Writes the whole file durably, or not at all. */
  #write(file: string, text: string): void {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
    const path = this.#path(file)
    writeFileSync(`${path}.new`, text, { mode: 0o600 })
    syncPath(`${path}.new`)
    renameSync(`${path}.new`, path)
    syncPath(this.#directory)
  }
}

const fresh = (): string =>
  generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
