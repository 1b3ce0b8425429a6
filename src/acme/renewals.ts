// Keeps a certificate for each wanted name. It is ordered if it is missing, renewed after two thirds of its lifetime or
// when the CA suggests it (ARI, RFC 9773), and retried after a failure. The present certificate is used until the new
// one is stored.
import { X509Certificate } from 'node:crypto'
import { stepOf } from '../base/retry.ts'
import type { Certificate } from '../base/certificate.ts'
import { DAY, HOUR, iso, MINUTE, type Clock } from '../base/clock.ts'
import { counters } from '../base/counters.ts'
import { messageOf } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { proofCertificate } from './alpn.ts'
import { AcmeClient, AcmeRefusal, type AcmeOptions, type Proof, type ChallengeType } from './client.ts'
import { NoAnswer } from './http.ts'
import type { CertificateStore } from './certificate-files.ts'

export interface RenewalDeps {
  clock: Clock
  log: Log
  certificateStore: CertificateStore
  /** The wanted names. They are read each hour and at each wake-up. */
  names: () => Promise<readonly string[]>
  client: Omit<AcmeOptions, 'clock'>
  /** The possible challenge types, the preferred one first. */
  ways: readonly ChallengeType[]
  /** Called when a new certificate for a name has been stored. */
  renewed: (name: string) => void
}

/**
 * Delays between tries for a name. The last one repeats. This is far below the authorities' limits for failed
 * validations.
 */
const RETRY = [10 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY]
/** While the clock is wrong, the least time between two orders: authorities limit equal certificates per week. */
const CLOCK = 2 * DAY
/** The interval of the check of all names, and that of the question to the authority about one certificate. */
const LOOK = HOUR
const ASK = 6 * HOUR
/** The most names of one account: it limits the effect of domains of untrusted users. */
const MAX_NAMES = 200

/** Error types (RFC 8555 §6.7) after which another challenge type may succeed. */
const UNPROVEN = new Set(['connection', 'incorrectResponse', 'tls', 'unauthorized'])

export class Renewals {
  readonly #deps: RenewalDeps
  /** Proofs by token, and certificates for proofs in the handshake by name. */
  readonly #proofs = new Map<string, Proof>()
  readonly #handshakes = new Map<string, Certificate>()
  #client: AcmeClient | undefined

  constructor(deps: RenewalDeps) {
    this.#deps = deps
  }

  /** The present content of /.well-known/acme-challenge/TOKEN. */
  proofOf(token: string): string | undefined {
    return this.#proofs.get(token)?.keyAuthorization
  }

  /** The certificate for a handshake that offers acme-tls/1 for a name at present. */
  proofFor(name: string): Certificate | undefined {
    return this.#handshakes.get(name.toLowerCase())
  }

  /** Does all due work. Returns the time of the next call. */
  async run(): Promise<number> {
    const { clock, names, certificateStore } = this.#deps
    let next = clock.now() + LOOK
    const wanted = (await names()).slice(0, MAX_NAMES)
    certificateStore.keepWanted(wanted)
    for (const name of wanted) {
      const due = await this.#dueAt(name)
      if (due > clock.now()) {
        next = Math.min(next, due)
        continue
      }
      const goOn = await this.#renew(name)
      next = Math.min(next, await this.#dueAt(name))
      // The authority did not answer, so the other names wait too.
      if (!goOn) break
    }
    return Math.max(next, clock.now() + MINUTE)
  }

  async #dueAt(name: string): Promise<number> {
    const { clock, log, certificateStore } = this.#deps
    const progress = certificateStore.progress(name)
    const certificate = certificateStore.certificate(name)
    if (!certificate) return progress.retryAt
    const { read } = certificate
    const now = clock.now()
    const [from, to] = [read.validFromDate.getTime(), read.validToDate.getTime()]
    let renewAt = progress.renewAt ?? from + ((to - from) * 2) / 3
    const id = renewalId(read)
    if (id !== undefined && now - (progress.askedAt ?? 0) >= ASK) {
      const window = await this.#clientNow()
        .renewalWindow(id)
        .catch((thrown: unknown) => {
          log.info('renewal_info_unavailable', { name, error: messageOf(thrown) })
          return undefined
        })
      // A random time in the window, so that not all clients renew at once (RFC 9773 §4.2).
      if (window && !(renewAt >= window.start && renewAt <= window.end))
        renewAt = window.start + Math.random() * (window.end - window.start)
      certificateStore.note(name, { ...progress, renewAt, askedAt: now })
    }
    return Math.max(renewAt, progress.retryAt)
  }

  /** Renews one certificate, or false if the authority does not answer. */
  async #renew(name: string): Promise<boolean> {
    const { clock, log, renewed, certificateStore } = this.#deps
    const progress = certificateStore.progress(name)
    try {
      const client = this.#clientNow()
      certificateStore.keepAccount(await client.account())
      const chain = await this.#ordered(client, name, progress.failures)
      const read = new X509Certificate(chain)
      certificateStore.keep(name, chain)
      const [from, to] = [read.validFromDate.getTime(), read.validToDate.getTime()]
      const renewAt = from + ((to - from) * 2) / 3
      const now = clock.now()
      // The new certificate is due for renewal already, so the clock of this machine is wrong.
      const early = renewAt <= now
      const error = early
        ? `The certificate is valid from ${iso(from)} to ${iso(to)}, but the clock of this machine shows ${iso(now)}; set it (timedatectl).`
        : null
      certificateStore.note(name, { renewAt, askedAt: now, failures: 0, retryAt: now + (early ? CLOCK : HOUR), error })
      if (error !== null) log.error('certificate_clock_mismatch', { name, error })
      log.info('certificate_issued', { name, until: iso(to) })
      renewed(name)
      return true
    } catch (thrown) {
      const failures = progress.failures + 1
      const wait = stepOf(RETRY, failures)
      const asked = thrown instanceof AcmeRefusal ? (thrown.retryAfter ?? 0) : 0
      const retryAt = clock.now() + Math.max(wait, asked)
      const error = messageOf(thrown)
      certificateStore.note(name, { ...progress, failures, retryAt, error })
      counters.certificates.add({ name })
      log.error('certificate_order_failed', { name, error, retry_at: iso(retryAt) })
      // The account may be the cause: the next try reads it again, or creates a new one.
      if (thrown instanceof AcmeRefusal && thrown.kind === 'accountDoesNotExist') certificateStore.forgetAccount()
      this.#client = undefined
      return !(thrown instanceof NoAnswer)
    }
  }

  #clientNow(): AcmeClient {
    const { client, clock, certificateStore } = this.#deps
    this.#client ??= new AcmeClient({ ...client, clock }, certificateStore.account())
    return this.#client
  }

  /**
   * The first try uses all challenge types, one after the other. Each later try uses the next type only, because
   * authorities count failed validations.
   */
  async #ordered(client: AcmeClient, name: string, failures: number): Promise<string> {
    const { certificateStore, ways } = this.#deps
    const turn = ways.length > 0 ? failures % ways.length : 0
    const left = new Set([...ways.slice(turn), ...ways.slice(0, turn)])
    for (;;)
      try {
        return await client.certificate(name, certificateStore.key(name), [...left], (proof) => {
          left.delete(proof.way)
          return this.#show(proof)
        })
      } catch (thrown) {
        const unproven = thrown instanceof AcmeRefusal && UNPROVEN.has(thrown.kind)
        if (!unproven || failures > 0 || left.size === 0) throw thrown
        this.#deps.log.info('certificate_challenge_switched', { name, error: thrown.message })
      }
  }

  #show(proof: Proof): () => void {
    const { keyAuthorization, name, token, way } = proof
    if (way === 'http-01') {
      this.#proofs.set(token, proof)
      return () => void this.#proofs.delete(token)
    }
    this.#handshakes.set(name, proofCertificate(name, keyAuthorization, this.#deps.clock.now()))
    return () => void this.#handshakes.delete(name)
  }
}

/**
 * The certificate's id: authority key identifier and serial number (RFC 9773 §4.1), or undefined without an authority
 * key identifier.
 */
export function renewalId({ raw, serialNumber }: X509Certificate): string | undefined {
  // 2.5.29.35 with a key identifier: `OCTET STRING { SEQUENCE { [0] … } }`.
  const at = raw.indexOf(Buffer.from([0x06, 0x03, 0x55, 0x1d, 0x23]))
  if (at < 0) return undefined
  const value = raw.subarray(at + 5)
  const tag = value.indexOf(0x80)
  if (tag < 0 || tag > 8) return undefined
  const identifier = value.subarray(tag + 2, tag + 2 + (value[tag + 1] ?? 0))
  const even = serialNumber.length % 2 === 0 ? serialNumber : `0${serialNumber}`
  // DER adds a zero byte before a number whose first bit is set.
  const serial = Buffer.from(parseInt(even.slice(0, 2), 16) > 127 ? `00${even}` : even, 'hex')
  return `${identifier.toString('base64url')}.${serial.toString('base64url')}`
}
