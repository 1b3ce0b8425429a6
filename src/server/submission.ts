// Assembles the submission listeners (RFC 6409, RFC 8314), for programs that send by SMTP with an API token as
// password.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import type { RateLimit } from '../base/rates.ts'
import { listenError } from '../http/listen.ts'
import { startListener, type SmtpListener } from '../smtp/listener.ts'
import { Senders } from '../submission/senders.ts'
import { Submissions, type SubmissionDeps } from '../submission/reception.ts'
import type { Certificates } from '../acme/certificates.ts'
import { openEach, type Opening } from './ipv4-ipv6.ts'

export interface SubmissionParts
  extends Omit<SubmissionDeps, 'senders' | 'maxBytes' | 'config'>, Pick<Opening, 'sandbox'> {
  clock: Clock
  log: Log
  config: Config
  rates: RateLimit
  certificates: Certificates
}

export interface SubmissionDoors {
  /** `listeners`: with STARTTLS. `tlsListeners`: with TLS from the first byte. */
  listeners: SmtpListener[]
  tlsListeners: SmtpListener[]
  stop(patience: number): Promise<void>
}

/** Opens the listeners of `[submission]`. Throws an OperatorError. */
export async function openSubmission(parts: SubmissionParts): Promise<SubmissionDoors> {
  const { certificates, clock, config } = parts
  const { submission } = config
  const senders = new Senders(parts)
  const submissions = new Submissions({ ...parts, senders, maxBytes: config.inbound.max_message_bytes })
  const opened: SmtpListener[] = []
  const open = async (
    key: string,
    endpoints: typeof submission.listen,
    door: 'submission' | 'submissions',
  ): Promise<SmtpListener[]> => {
    return openEach(endpoints, door, parts, async (address) => {
      const listener = await startListener(address, {
        hostname: config.hostname,
        clock,
        certificate: certificates.first('smtp'),
        implicitTls: door === 'submissions',
        maxBytes: config.inbound.max_message_bytes,
        maxConnections: submission.max_connections,
        maxPerAddress: submission.max_connections_per_address,
        maxRecipients: submission.max_recipients,
        login: (password, client) => senders.login(password, client),
        welcome: (_, who) => submissions.welcome(who),
        data: (who) => submissions.data(who),
        recipient: (recipient, from, who) => submissions.recipient(recipient, from, who),
        message: (bytes, envelope, sound, who) => submissions.message(bytes, envelope, sound, who),
        fault: (thrown) => void parts.log.fault('SMTP submission', thrown),
      }).catch((thrown: unknown) => {
        throw listenError(thrown, parts.sandbox?.[door]?.option ?? key, address)
      })
      certificates.follow('smtp', (certificate) => listener.renew(certificate))
      opened.push(listener)
      return listener
    })
  }
  const stop = async (patience: number): Promise<void> => {
    await Promise.all(opened.map((listener) => listener.close(patience)))
  }
  try {
    return {
      listeners: await open('submission.listen', submission.listen, 'submission'),
      tlsListeners: await open('submission.tls_listen', submission.tls_listen, 'submissions'),
      stop,
    }
  } catch (thrown) {
    await stop(0)
    throw thrown
  }
}
