// Receiving, assembled once: the listeners on their addresses, the engine that reads what came, the threads it reads with.
import { X509Certificate, createPrivateKey } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeCertificate, type Certificate } from '../base/certificate.ts'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { gate } from '../base/gate.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { Pool } from '../base/pool.ts'
import { remembering } from '../base/remembered.ts'
import type { Resolver } from '../base/resolver.ts'
import { listenError } from '../api/server.ts'
import { InboundEngine } from '../inbound/deliver.ts'
import { Reception } from '../inbound/receive.ts'
import type { InboundJob, InboundResult } from '../inbound/reader.ts'
import { startListener, type SmtpListener } from '../smtp/listener.ts'
import type { Host } from '../smtp/route.ts'
import type { Store } from '../store/database.ts'
import type { Spool } from '../store/spool.ts'

export interface InboundParts {
  store: Store
  spool: Spool
  clock: Clock
  keyring: Keyring
  log: Log
  config: Config
  resolver: Resolver
}

export interface Inbound {
  engine: InboundEngine
  /** For what is read once more, when somebody asks for an attachment. */
  files: Pick<Pool<InboundJob, InboundResult>, 'run'>
  listeners: SmtpListener[]
  /** The first listener, as mail from here to here reaches it. */
  home(): Host | undefined
  /** Opens the listeners. Throws an OperatorError. */
  listen(key?: string): Promise<void>
  /** Takes the certificate anew. Throws an OperatorError. */
  renew(): void
  stop(patience: number): Promise<void>
}

const READERS = 2
/** Who listens on all addresses is reached on this one. */
const LOOPBACK: Record<string, string> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

export function createInbound(parts: InboundParts): Inbound {
  const { clock, config, resolver } = parts
  const source = new URL('../inbound/reader.ts', import.meta.url)
  const reader = new Pool<InboundJob, InboundResult>(source, { size: READERS })
  // Threads of their own: a download must not use up the time in which a message has to be read.
  const files = new Pool<InboundJob, InboundResult>(source, { size: READERS })
  const inTurn = gate(READERS)
  const ask = remembering(resolver, clock)
  const judge = new Pool<InboundJob, InboundResult>(source, {
    size: 1,
    answer: ({ name, type }: { name: string; type: string }) => ask(name, type),
  })
  const engine = new InboundEngine({ ...parts, reader, judge })
  const reception = new Reception({ ...parts, ring: () => engine.ring() })
  const listeners: SmtpListener[] = []
  return {
    engine,
    files: { run: (job) => inTurn(() => files.run(job)) },
    listeners,
    home() {
      const [first] = listeners
      return first && { name: config.hostname, port: first.port, address: LOOPBACK[first.host] ?? first.host }
    },
    async listen(key = 'smtp.listen') {
      const certificate = certificateOf(config, clock.now())
      for (const { host, port } of config.smtp.listen)
        listeners.push(
          await startListener(
            { host, port },
            {
              hostname: config.hostname,
              certificate,
              maxBytes: config.inbound.max_message_bytes,
              maxConnections: config.smtp.max_connections,
              maxPerAddress: config.smtp.max_connections_per_address,
              recipient: (address) => reception.recipient(address),
              message: (bytes, envelope, sound) => reception.message(bytes, envelope, sound),
              fault: (thrown) => void parts.log.fault('receiving', thrown),
            },
          ).catch((thrown: unknown) => {
            throw listenError(thrown, key, host, port)
          }),
        )
    },
    renew() {
      const certificate = certificateOf(config, clock.now())
      for (const listener of listeners) listener.renew(certificate)
    },
    async stop(patience) {
      await Promise.all(listeners.map((listener) => listener.close(patience)))
      await engine.stop()
      await Promise.all([reader.close(), files.close(), judge.close()])
    },
  }
}

/** The configured certificate, else one of our own making, kept in the data directory so that clients see the same one again. */
function certificateOf({ data_dir, hostname, smtp: { tls_cert, tls_key } }: Config, now: number): Certificate {
  if (tls_cert !== '' || tls_key !== '')
    return checked(readPem(tls_cert, 'smtp.tls_cert'), readPem(tls_key, 'smtp.tls_key'))
  const file = join(data_dir, 'smtp-certificate.pem')
  const kept = readKept(file)
  if (kept && fits(kept, hostname, now)) return kept
  const made = makeCertificate(hostname, now)
  writeFileSync(`${file}.new`, made.cert + made.key, { mode: 0o600 })
  renameSync(`${file}.new`, file)
  return made
}

function readPem(path: string, key: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (thrown) {
    throw new OperatorError(
      `"${key}" (${path || 'empty'}) cannot be read (${codeOf(thrown)}); give both smtp.tls_cert and smtp.tls_key, or neither.`,
    )
  }
}

function checked(cert: string, key: string): Certificate {
  try {
    if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
      throw new Error('they do not belong together')
    return { cert, key }
  } catch (thrown) {
    throw new OperatorError(
      `The certificate of smtp.tls_cert and the key of smtp.tls_key are no use: ${thrown instanceof Error ? thrown.message : String(thrown)}.`,
    )
  }
}

function readKept(file: string): Certificate | undefined {
  try {
    const [cert = '', key = ''] = readFileSync(file, 'utf8').split(/(?<=-----END CERTIFICATE-----\n)/)
    return { cert, key }
  } catch {
    return undefined
  }
}

function fits({ cert, key }: Certificate, hostname: string, now: number): boolean {
  try {
    const read = new X509Certificate(cert)
    const whole = read.checkPrivateKey(createPrivateKey(key))
    return whole && read.checkHost(hostname) !== undefined && read.validToDate.getTime() > now
  } catch {
    return false
  }
}
