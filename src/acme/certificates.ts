// The certificates of the listeners: the configured one, else the one of ACME, else a self-signed one. The last is kept
// in the data directory, so that clients always see the same one. All listeners use a new certificate without a
// restart.
import { X509Certificate, createPrivateKey } from 'node:crypto'
import { join } from 'node:path'
import { createSecureContext, type SecureContext } from 'node:tls'
import { isFor, readMatching, type CertificateStore } from './certificate-files.ts'
import { makeCertificate, type Certificate } from '../base/certificate.ts'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import { whyUnread } from '../base/file-faults.ts'
import type { Log } from '../base/log.ts'
import { readNamed, readPlain, replacePlain } from '../base/plain-file.ts'
import { TLS_POLICY } from '../base/tls.ts'

/** The kind of listener that a certificate is for: `[smtp]` may have its own. */
export type Door = 'smtp' | 'https'

export interface CertificateDeps {
  clock: Clock
  log: Log
  config: Config
  /** The certificates from ACME, or undefined if ACME is off. */
  certificateStore: Pick<CertificateStore, 'begin' | 'certificate' | 'names'> | undefined
}

/** The file of the certificate that the server made, in the data directory. */
export const SELF_MADE = 'smtp-certificate.pem'

interface CertificateUse {
  door: Door
  renew: (certificate: Certificate) => void
}

export class Certificates {
  readonly #deps: CertificateDeps
  readonly #shown: CertificateUse[] = []
  /** Reasons that are already in the log. */
  readonly #told = new Set<string>()
  readonly #contexts = new Map<string, SecureContext>()

  constructor(deps: CertificateDeps) {
    this.#deps = deps
  }

  /**
   * The first certificate. If it cannot be read at present, for example after a renewal by root, the reason is logged
   * and a self-signed one is used. Throws an OperatorError for an invalid one.
   */
  first(door: Door): Certificate {
    const { log } = this.#deps
    try {
      return this.#read(door)
    } catch (thrown) {
      if (!(thrown instanceof Unreadable)) throw thrown
      // Logged once, not for each listener with this certificate.
      if (!this.#told.has(thrown.message)) log.error('certificate_not_readable', { error: thrown.message })
      this.#told.add(thrown.message)
      return this.#selfMade()
    }
  }

  /** Returns the available certificate of a listener, or undefined if it is missing or cannot be read at present. */
  known(door: Door): Certificate | undefined {
    try {
      return configured(this.#deps.config, door) ?? this.#brought(door) ?? this.#found()
    } catch (thrown) {
      if (thrown instanceof Unreadable) return undefined
      throw thrown
    }
  }

  /** Calls `renew` with each later certificate. */
  follow(door: Door, renew: (certificate: Certificate) => void): void {
    this.#shown.push({ door, renew })
  }

  /** Loads all certificates again. If it throws an OperatorError, all certificates stay unchanged. */
  renew(): void {
    const fresh = this.#shown.map(({ door, renew }) => ({ certificate: this.#read(door), renew }))
    this.#contexts.clear()
    this.#told.clear()
    for (const { certificate, renew } of fresh) renew(certificate)
  }

  #read(door: Door): Certificate {
    return configured(this.#deps.config, door) ?? this.#brought(door) ?? this.#selfMade()
  }

  /** Clients of HTTPS that name no host get the certificate of the public name. */
  #brought(door: Door): Certificate | undefined {
    const { config, certificateStore } = this.#deps
    const names = door === 'https' ? [new URL(config.http.public_url).hostname, config.hostname] : [config.hostname]
    return names.map((name) => certificateStore?.certificate(name)).find((certificate) => certificate !== undefined)
  }

  /**
   * The certificate for a host that a client names (SNI, RFC 6066 §3). Undefined: the listener's certificate is used.
   */
  contextOf(host: string): SecureContext | undefined {
    const { certificateStore } = this.#deps
    const name = host.toLowerCase()
    if (!certificateStore || this.#deps.config.tls.cert !== '') return undefined
    if (!this.#contexts.has(name)) {
      const certificate = certificateStore.names().includes(name) ? certificateStore.certificate(name) : undefined
      if (!certificate) return undefined
      this.#contexts.set(name, createSecureContext({ cert: certificate.cert, key: certificate.key, ...TLS_POLICY }))
    }
    return this.#contexts.get(name)
  }

  #selfMade(): Certificate {
    const { config, certificateStore } = this.#deps
    const shown = this.#kept()
    // The later ACME certificate has the same key, so TLSA records are valid from the start.
    certificateStore?.begin(config.hostname, shown.key)
    return shown
  }

  get #file(): string {
    return join(this.#deps.config.data_dir, SELF_MADE)
  }

  /** Returns the stored self-signed certificate, if it is still usable. */
  #found(): Certificate | undefined {
    const { clock, config } = this.#deps
    const kept = readKept(this.#file)
    const read = kept && readMatching(kept)
    return read && isFor(read, config.hostname, clock.now()) ? kept : undefined
  }

  #kept(): Certificate {
    const { clock, config } = this.#deps
    const found = this.#found()
    if (found) return found
    const file = this.#file
    const made = makeCertificate(config.hostname, clock.now())
    replacePlain(file, made.cert + made.key)
    return made
  }
}

type Naming = Pick<Config, 'acme' | 'data_dir' | 'hostname' | 'smtp' | 'tls'>

/**
 * The files of SMTP's certificate ('' when the server makes its own), and the configuration keys that name them
 * (undefined for an ACME certificate).
 */
export function certificateFiles({ acme, data_dir, hostname, smtp, tls }: Naming): {
  cert: string
  key: string
  keys: string | undefined
} {
  if (smtp.tls_cert !== '')
    return { cert: smtp.tls_cert, key: smtp.tls_key, keys: '"smtp.tls_cert" and "smtp.tls_key"' }
  if (tls.cert !== '') return { cert: tls.cert, key: tls.key, keys: '"tls.cert" and "tls.key"' }
  const brought = join(data_dir, 'acme', hostname)
  return acme.enabled
    ? { cert: `${brought}.crt`, key: `${brought}.key`, keys: undefined }
    : { cert: '', key: '', keys: undefined }
}

/** A configured file that cannot be read at present. For invalid content there is a plain OperatorError. */
class Unreadable extends OperatorError {}

/** Returns the certificate of the configuration, or undefined without one. Throws an OperatorError. */
function configured({ smtp, tls }: Pick<Config, 'smtp' | 'tls'>, door: Door): Certificate | undefined {
  if (door === 'smtp' && (smtp.tls_cert !== '' || smtp.tls_key !== ''))
    return checked(['smtp.tls_cert', smtp.tls_cert], ['smtp.tls_key', smtp.tls_key])
  if (tls.cert !== '' || tls.key !== '') return checked(['tls.cert', tls.cert], ['tls.key', tls.key])
  return undefined
}

/**
 * Returns why certificates of the configuration cannot be read at present, each reason once. Throws an OperatorError
 * for an error that keeps listeners from starting.
 */
export function certificatesIn(config: Pick<Config, 'http' | 'smtp' | 'tls'>): OperatorError[] {
  const unreadable = new Map<string, OperatorError>()
  for (const door of config.http.tls_listen.length > 0 ? (['smtp', 'https'] as const) : (['smtp'] as const))
    try {
      configured(config, door)
    } catch (thrown) {
      if (!(thrown instanceof Unreadable)) throw thrown
      unreadable.set(thrown.message, thrown)
    }
  return [...unreadable.values()]
}

/** A key of the configuration and its value, which is a path. */
type Named = readonly [key: string, path: string]

function checked(cert: Named, key: Named): Certificate {
  const [pem, secret] = [readPem(cert, [cert, key]), readPem(key, [cert, key])]
  try {
    if (!new X509Certificate(pem).checkPrivateKey(createPrivateKey(secret)))
      throw new Error('they do not belong together')
    // A valid certificate may still be too weak for this server's TLS policy.
    createSecureContext({ cert: pem, key: secret, ...TLS_POLICY })
    return { cert: pem, key: secret }
  } catch (thrown) {
    const named = [cert, key].map(([name, path]) => `"${name}" (${path})`).join(' and ')
    throw new OperatorError(
      `The certificate and key of ${named} cannot be used: ${reasonOf(thrown)}; use a PEM certificate and its key, ECDSA or RSA with at least 2048 bits.`,
    )
  }
}

/** The reason of an OpenSSL error, without its codes. */
function reasonOf(thrown: unknown): string {
  const { message, reason } = thrown as { message?: string; reason?: string }
  if (/^(?:ee|ca) key too small$/.test(reason ?? '')) return 'the key is too weak'
  if (reason === 'ca md too weak') return 'the signature is too weak'
  return reason ?? message ?? String(thrown)
}

function readPem([key, path]: Named, [cert, secret]: readonly [Named, Named]): string {
  try {
    return readNamed(path).toString()
  } catch (thrown) {
    if (path === '') throw new OperatorError(`"${key}" is empty; set both "${cert[0]}" and "${secret[0]}", or neither.`)
    throw new Unreadable(
      `"${key}" (${path}) cannot be read (${whyUnread(thrown)}); give the service user read access, for example with "setfacl -m u:postrider:rX" on the file and its parent directories, then reload.`,
    )
  }
}

function readKept(file: string): Certificate | undefined {
  try {
    const [cert = '', key = ''] = readPlain(file)
      .toString()
      .split(/(?<=-----END CERTIFICATE-----\n)/)
    return { cert, key }
  } catch {
    return undefined
  }
}
