// The stored certificates of an authority: <data_dir>/acme/NAME.crt (the chain), NAME.key, NAME.next.key, and NAME.json
// with the time of renewal. The account is stored there too, and wanted.json, the names at the server's last check. A
// name keeps its key across renewals, and the next key is made in advance, so that TLSA records can contain both.
import { createPrivateKey, generateKeyPairSync, X509Certificate, type KeyObject } from 'node:crypto'
import { linkSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Certificate } from '../base/certificate.ts'
import { makeDirectory, syncPath } from '../base/durable.ts'
import { codeOf, must } from '../base/errors.ts'
import { pemOf } from '../base/certificate.ts'
import { readPlain, replacePlain } from '../base/plain-file.ts'
import type { AcmeAccount } from './client.ts'

/** The progress of a name's renewals. Times in ms. */
export interface RenewalState {
  /** The time of renewal, or null if it is not known yet. */
  renewAt: number | null
  /** The time of the last question to the authority about the renewal time. */
  askedAt: number | null
  failures: number
  /** No try before this time. */
  retryAt: number
  error: string | null
}

const NEW: RenewalState = { renewAt: null, askedAt: null, failures: 0, retryAt: 0, error: null }

export class CertificateStore {
  readonly #directory: string

  constructor(dataDir: string) {
    this.#directory = join(dataDir, 'acme')
  }

  /** The path of a name's chain. The file may not exist. */
  chainFile(name: string): string {
    return this.#path(`${name}.crt`)
  }

  keyFile(name: string): string {
    return this.#path(`${name}.key`)
  }

  names(): string[] {
    try {
      return readdirSync(this.#directory).flatMap((file) => (file.endsWith('.crt') ? [file.slice(0, -4)] : []))
    } catch {
      return []
    }
  }

  /**
   * The names that need a certificate, from the server's last check. Names whose certificates are no longer needed are
   * not in it.
   */
  wanted(): string[] {
    const names = this.#json('wanted.json')
    return Array.isArray(names) ? names.filter((name) => typeof name === 'string') : []
  }

  keepWanted(names: readonly string[]): void {
    if (JSON.stringify(names) !== JSON.stringify(this.wanted())) this.#write('wanted.json', JSON.stringify(names))
  }

  /** Returns a certificate, or undefined if it is missing, cannot be read, or does not match its key. */
  certificate(name: string): (Certificate & { read: X509Certificate }) | undefined {
    const [cert, key] = [this.#text(`${name}.crt`), this.#text(`${name}.key`)]
    if (cert === undefined || key === undefined) return undefined
    const read = readMatching({ cert, key })
    return read && { cert, key, read }
  }

  /**
   * Makes the key for a name's first certificate, and the key after it, unless they exist. `shown`: the P-256 key (PEM)
   * that listeners use until then. It is taken over, so that TLSA records of it stay valid.
   */
  begin(name: string, shown?: string): void {
    this.#make(`${name}.key`, () => shown ?? fresh())
    this.#make(`${name}.next.key`, fresh)
  }

  /** The key for a name's next certificate. If it is missing, it is created, together with the key after it. */
  key(name: string): KeyObject {
    this.begin(name)
    return must(this.madeKey(name), 'The key that was made')
  }

  /** The key for a name's next certificate, or undefined before the first order. */
  madeKey(name: string): KeyObject | undefined {
    return this.#key(`${name}.key`)
  }

  /** The key after the present one, or undefined before the first order. */
  nextKey(name: string): KeyObject | undefined {
    return this.#key(`${name}.next.key`)
  }

  #key(file: string): KeyObject | undefined {
    const text = this.#text(file)
    return text === undefined ? undefined : createPrivateKey(text)
  }

  keep(name: string, chain: string): void {
    this.#write(`${name}.crt`, chain)
  }

  progress(name: string): RenewalState {
    return { ...NEW, ...(this.#json(`${name}.json`) as Partial<RenewalState> | undefined) }
  }

  note(name: string, progress: RenewalState): void {
    this.#write(`${name}.json`, JSON.stringify(progress))
  }

  /** Returns the account, or undefined if its file is missing or corrupt. Then a new account is created. */
  account(): AcmeAccount | undefined {
    const { directory, key, url } = (this.#json('account.json') ?? {}) as Partial<Record<string, unknown>>
    if (typeof directory !== 'string' || typeof key !== 'string' || typeof url !== 'string') return undefined
    try {
      createPrivateKey(key)
      return { directory, key, url }
    } catch {
      return undefined
    }
  }

  /** For an account that the authority has deleted. */
  forgetAccount(): void {
    rmSync(this.#path('account.json'), { force: true })
  }

  keepAccount(account: AcmeAccount): void {
    this.#write('account.json', JSON.stringify(account))
  }

  #path(file: string): string {
    return join(this.#directory, file)
  }

  #text(file: string): string | undefined {
    try {
      return readPlain(this.#path(file)).toString()
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

  /** Writes a file unless it exists. A command and the server may do this at the same time. The first one wins. */
  #make(file: string, text: () => string): void {
    if (this.#text(file) !== undefined) return
    const own = `${file}.${process.pid}`
    this.#write(own, text())
    try {
      linkSync(this.#path(own), this.#path(file))
    } catch (thrown) {
      // The file system may not support hard links.
      if (codeOf(thrown) !== 'EEXIST') renameSync(this.#path(own), this.#path(file))
    } finally {
      rmSync(this.#path(own), { force: true })
    }
    syncPath(this.#directory)
  }

  /** Writes a file completely and durably, or not at all. */
  #write(file: string, text: string): void {
    makeDirectory(this.#directory)
    replacePlain(this.#path(file), text)
  }
}

const fresh = (): string => pemOf(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey)

/** The certificate, read, or undefined if it cannot be read, or does not match its key. */
export function readMatching({ cert, key }: Certificate): X509Certificate | undefined {
  try {
    const read = new X509Certificate(cert)
    return read.checkPrivateKey(createPrivateKey(key)) ? read : undefined
  } catch {
    return undefined
  }
}

/** Whether a certificate is for a host and has not expired. */
export const isFor = (read: X509Certificate, host: string, now: number): boolean =>
  read.checkHost(host) !== undefined && read.validToDate.getTime() > now
