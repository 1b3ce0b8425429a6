// The finder of certificates: the one of SMTP, and one for each name that ACME orders.
import { X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import { CertificateStore } from '../acme/certificate-files.ts'
import { certificateFiles } from '../acme/certificates.ts'
import { DAY, HOUR, iso } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { codeOrMessage } from '../base/errors.ts'
import { readNamed } from '../base/plain-file.ts'
import { counted } from '../base/text.ts'
import { fail, fixedBy, ok, warn, type Alert, type Finder, type Finding } from '../parts/findings/finding.ts'

/** The time before expiry at which a certificate expires soon, or a sixth of its lifetime if that is short. */
const EXPIRES_SOON = 14 * DAY
const SOON_OF_LIFE = 6

/** A new name has no certificate for some minutes. */
const ALERT: Alert = { subject: 'certificate', lasts: HOUR }

interface UsedCertificate {
  id: string
  /** The host name that the certificate must contain. */
  name: string
  /** Paths, or '' if the server uses a self-signed certificate. */
  cert: string
  key: string
  /** The configuration keys of the paths, or undefined if the certificate is from ACME. */
  keys: string | undefined
}

function usedCertificates(config: Config): UsedCertificate[] {
  const { acme, data_dir, hostname } = config
  const { cert, key, keys } = certificateFiles(config)
  const first = { id: 'certificate', name: hostname, cert, key, keys }
  if (!acme.enabled) return [first]
  const certificateStore = new CertificateStore(data_dir)
  const others = certificateStore.wanted().filter((name) => name !== hostname || keys !== undefined)
  return [
    first,
    ...others.map((name) => ({
      id: `certificate of ${name}`,
      name,
      cert: certificateStore.chainFile(name),
      key: certificateStore.keyFile(name),
      keys: undefined,
    })),
  ]
}

function findingOf({ acme, data_dir }: Config, now: number, used: UsedCertificate): Finding {
  const { cert: file, id, key, keys, name } = used
  if (file === '')
    return fixedBy(
      'acme',
      'Sending servers that verify certificates (MTA-STS, DANE) do not deliver to this server.',
      warn(
        id,
        'self-signed: email is encrypted, but sending servers cannot verify the certificate',
        'Turn on automatic certificates ("acme.enabled"), or set "tls.cert" and "tls.key" to a certificate for the hostname.',
      ),
    )
  const ordered = acme.enabled && keys === undefined
  const { error, retryAt } = ordered ? new CertificateStore(data_dir).progress(name) : { error: null, retryAt: 0 }
  const lead = `Make port 80 or 443 of ${name} reach this server, and check the log for "certificate_order_failed".`
  if (ordered && !existsSync(file))
    return fail(
      id,
      `${new URL(acme.directory).host} has not issued one for ${name} yet${error === null ? '' : `: ${error}`}`,
      lead,
    )
  let certificate: X509Certificate
  try {
    certificate = new X509Certificate(readNamed(file))
    readNamed(key)
  } catch (thrown) {
    return fail(
      id,
      `${file} or its key cannot be read (${codeOrMessage(thrown)})`,
      keys === undefined ? 'Make the service user the owner of its data directory.' : `Correct ${keys}.`,
    )
  }
  const [from, end] = [Date.parse(certificate.validFrom), Date.parse(certificate.validTo)]
  const days = counted(Math.floor((end - now) / DAY), 'day')
  const renew = ordered
    ? `Renewal is automatic. Check the log for "certificate_order_failed".`
    : 'Renew it, then "systemctl reload postrider" (SIGHUP).'
  if (now >= end) return fail(id, `${file} expired on ${certificate.validTo}`, renew)
  if (from > now) return fail(id, `${file} is valid only from ${certificate.validFrom}`, renew)
  if (!certificate.checkHost(name))
    return fail(id, `${file} is not for ${name}`, `Use a certificate for ${name}, the name in the MX records.`)
  const isSoon = end - now < Math.min(EXPIRES_SOON, (end - from) / SOON_OF_LIFE)
  if (error === null && !isSoon) return ok(id, `${file}, expires in ${days}`)
  const warning =
    error === null
      ? warn(id, `${file} expires in ${days}`, renew)
      : warn(id, `${file} expires in ${days} and was not renewed: ${error}, next attempt at ${iso(retryAt)}`, lead)
  return isSoon ? { ...warning, alert: ALERT } : warning
}

export const certificateFinder: Finder = {
  effect: 'The mail certificate is not valid: senders that require TLS cannot deliver to this server.',
  alert: ALERT,
  every: HOUR,
  find: ({ clock, config }) => usedCertificates(config).map((used) => findingOf(config, clock.now(), used)),
}
