// Checks of `postrider doctor` for the machine itself: configuration, data directory, clock, certificates, disk.
import { X509Certificate } from 'node:crypto'
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DAY, iso, SECOND, SET_BACK, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { GAP, readSign, sentenceOf, shownSpan } from '../base/doubt.ts'
import { codeOrMessage } from '../base/errors.ts'
import { keyFault, type Keyring } from '../base/keyring.ts'
import { readNamed } from '../base/plain-file.ts'
import { FEW_INODES, freeInodesOn, freeOn } from '../base/space.ts'
import { unusable, whyUnusable } from '../base/unusable.ts'
import { Shelf } from '../acme/certificate-files.ts'
import { sizeOf } from './figures.ts'
import { holdersOf, holderText, LONG_LOG, spanOf } from '../store/log.ts'
import type { Store } from '../store/database.ts'
import { keyFaultBeside } from '../store/instance.ts'
import { DATABASE } from '../store/open.ts'
import { certificateFiles } from '../acme/certificates.ts'
import { clockOffset } from '../net/time-server.ts'

export interface Finding {
  check: string
  status: 'ok' | 'warn' | 'fail'
  /** The observed facts. */
  detail: string
  /** The remedy; null when nothing is wrong. */
  mend: string | null
}

export const well = (check: string, detail: string): Finding => ({ check, status: 'ok', detail, mend: null })
export const warn = (check: string, detail: string, mend: string): Finding => ({ check, status: 'warn', detail, mend })
export const bad = (check: string, detail: string, mend: string): Finding => ({ check, status: 'fail', detail, mend })

/** The finding for a check without an answer from DNS. */
export const unasked = (check: string, what: string): Finding =>
  warn(
    check,
    `DNS could not be asked about ${what}`,
    'See that DNS works ("dns.servers", /etc/resolv.conf), and try again.',
  )

/** What to do about what a notice to the operator tells of, too. */
export const FIXES = {
  disk: 'Free space, or move data_dir to a larger disk; "[retention]" removes what is old.',
  database:
    'See that the disk of data_dir has room and no errors (dmesg), and that it is mounted to be written; then "postrider verify" says whether the database is sound.',
  damage: '"postrider verify" names what is damaged; docs/backup.md puts it back from a backup.',
  date: 'Compare "date" with a true clock and set it right; if it is right, the server believes it within a day.',
  key: 'Put instance.key back from a backup before the server is stopped: without it no DKIM key and no secret can be opened.',
  log: 'The log (event "trouble") names the error; docs/operate.md says what to do about disks, memory and descriptors.',
} as const

const MB = 1024 * 1024
/** Free space: below the first limit mail will soon be refused, below the second the operator should act. */
const SCARCE = 200 * MB
const LITTLE = 2048 * MB
/** Clock errors that are reported: receivers distrust a DKIM signature with a wrong time. */
const OFF = 5 * SECOND
const FAR_OFF = 300 * SECOND

/** Whether the configuration can work; its syntax was checked before. `from`: where it was read, if this is known. */
export function judgeConfig(config: Config, from?: string): Finding {
  const check = 'configuration'
  const told = (words: string): string => (from === undefined ? words : `${from}; ${words}`)
  if (!config.hostname.includes('.') || /(?:^|\.)(?:localhost|local|test|invalid|example)$/.test(config.hostname))
    return warn(
      check,
      told(`the hostname is "${config.hostname}"`),
      'Set "hostname" to the name of this machine that the world knows.',
    )
  const { hostname, protocol } = new URL(config.http.public_url)
  if (protocol !== 'https:')
    return warn(
      check,
      told(`public_url is ${config.http.public_url}`),
      /^(?:127\.|localhost$|\[::1\])/.test(hostname)
        ? 'Set "http.public_url" to the https address of this server: links in mail lead there.'
        : 'Set "http.public_url" to an https address: tokens and passwords travel there.',
    )
  return well(check, from ?? 'nothing in it stands in the way')
}

export function judgeDataDir({ data_dir }: Config): Finding {
  const check = 'data directory'
  if (!existsSync(data_dir))
    return warn(check, `${data_dir} does not exist yet`, '"postrider init" or "postrider serve" makes it.')
  try {
    accessSync(data_dir, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (thrown) {
    const { mend, what } = unusable(whyUnusable(thrown, data_dir) ?? 'not ours', data_dir)
    return bad(check, what, `${mend.charAt(0).toUpperCase()}${mend.slice(1)}.`)
  }
  // A directory without access for others protects all its files.
  const isOpen = (path: string): boolean => existsSync(path) && (statSync(path).mode & 0o007) !== 0
  const open = isOpen(data_dir)
    ? ['', 'instance.key', 'postrider.db'].map((name) => join(data_dir, name)).filter(isOpen)
    : []
  if (open.length > 0)
    return warn(check, `others on this machine can read ${open.join(', ')}`, `chmod o-rwx ${open.join(' ')}`)
  return well(check, data_dir)
}

/** Whether the key's file is still the one that the server runs with. */
export function judgeKey({ data_dir }: Config, keyring: Keyring): Finding {
  return keyFinding(keyFault(data_dir, keyring), 'the file holds the key that the server runs with')
}

/** As `judgeKey`, without a server: whether the key belongs to the database beside it. */
export const judgeKeyBeside = (store: Store, { data_dir }: Config): Finding =>
  keyFinding(keyFaultBeside(store, data_dir), 'it belongs to the database')

function keyFinding(fault: string | undefined, fine: string): Finding {
  const check = 'installation key'
  return fault === undefined ? well(check, fine) : bad(check, fault, FIXES.key)
}

export async function judgeClock(clock: Clock, server: { host: string; port: number }): Promise<Finding> {
  const check = 'clock'
  const offset = await clockOffset(clock, server)
  if (offset === undefined)
    return warn(
      check,
      `no answer from the time server ${server.host}`,
      'Let UDP port 123 out, or name another with --time-server; see that the machine keeps its time by NTP.',
    )
  const off = `${(Math.abs(offset) / SECOND).toFixed(2)} s ${offset > 0 ? 'behind' : 'ahead'}`
  const mend = 'Keep the time by NTP ("timedatectl set-ntp true").'
  if (Math.abs(offset) > FAR_OFF) return bad(check, `${off}; signatures and tokens will be refused`, mend)
  return Math.abs(offset) > OFF ? warn(check, off, mend) : well(check, off)
}

/** Whether the server doubts the date, as it wrote into its data directory (D120). */
export function judgeDate({ data_dir }: Config, now: number): Finding {
  const check = 'date'
  const sign = readSign(data_dir)
  if (sign === undefined) return well(check, 'nothing to compare it with: no server has run here yet')
  const mend = FIXES.date
  if (sign.doubted) return warn(check, sentenceOf(sign.doubted), mend)
  if (sign.seen - now > SET_BACK)
    return warn(check, `it is ${shownSpan(sign.seen - now)} before the server last ran`, mend)
  if (now - sign.seen >= GAP) return well(check, `it is ${shownSpan(now - sign.seen)} after the server last ran`)
  return well(check, `fits: the server last ran at ${iso(sign.seen)}`)
}

/** The certificate of SMTP, and one finding for each name that needs a certificate by ACME. */
export const judgeCertificates = (config: Config, now: number): Finding[] =>
  judgedCertificates(config).map((judged) => judgeCertificate(config, now, judged))

/** Those that the operator must hear of: a certificate that is bad, is not there, or ends soon. */
export const graveCertificates = (config: Config, now: number): Finding[] =>
  judgedCertificates(config).flatMap((judged) => {
    const finding = judgeCertificate(config, now, judged)
    const grave = finding.status === 'fail' || (finding.status === 'warn' && endsSoon(judged.cert, now))
    return grave ? [finding] : []
  })

function judgedCertificates(config: Config): JudgedCertificate[] {
  const { acme, data_dir, hostname } = config
  const { cert, key, keys } = certificateFiles(config)
  const first = { check: 'certificate', name: hostname, cert, key, keys }
  if (!acme.enabled) return [first]
  const shelf = new Shelf(data_dir)
  const others = shelf.wanted().filter((name) => name !== hostname || keys !== undefined)
  return [
    first,
    ...others.map((name) => ({
      check: `certificate of ${name}`,
      name,
      cert: shelf.chainFile(name),
      key: shelf.keyFile(name),
      keys: undefined,
    })),
  ]
}

/** A certificate ends soon from then on; one with a short life when a sixth of it is left. */
const EXPIRES_SOON = 14 * DAY
const SOON_OF_LIFE = 6

/** Whether a certificate, of which there is a file that can be read, ends soon. */
function endsSoon(file: string, now: number): boolean {
  if (file === '') return false
  const { validFrom, validTo } = new X509Certificate(readNamed(file))
  const [from, to] = [Date.parse(validFrom), Date.parse(validTo)]
  return to - now < Math.min(EXPIRES_SOON, (to - from) / SOON_OF_LIFE)
}

interface JudgedCertificate {
  check: string
  /** The host name that the certificate must contain. */
  name: string
  /** Paths; '' when the server makes its own certificate. */
  cert: string
  key: string
  /** The configuration keys of the paths; undefined: the certificate is from ACME. */
  keys: string | undefined
}

function judgeCertificate({ acme, data_dir }: Config, now: number, judged: JudgedCertificate): Finding {
  const { cert: file, check, key, keys, name } = judged
  if (file === '')
    return warn(
      check,
      'the server makes its own; mail is encrypted, but senders that check (MTA-STS, DANE) stay away',
      'Turn "[acme]" on, or get one for the hostname and set "tls.cert" and "tls.key".',
    )
  const brought = acme.enabled && keys === undefined
  const { error, retryAt } = brought ? new Shelf(data_dir).progress(name) : { error: null, retryAt: 0 }
  const lead = `Let port 80 or 443 of ${name} lead to this server, and look for "certificate not had" in the log.`
  if (brought && !existsSync(file))
    return bad(
      check,
      `${new URL(acme.directory).host} has given none for ${name} yet${error === null ? '' : `: ${error}`}`,
      lead,
    )
  let certificate: X509Certificate
  try {
    certificate = new X509Certificate(readNamed(file))
    readNamed(key)
  } catch (thrown) {
    return bad(
      check,
      `${file} or its key cannot be read (${codeOrMessage(thrown)})`,
      keys === undefined ? 'Give the service its data directory again.' : `Correct ${keys}.`,
    )
  }
  const end = Date.parse(certificate.validTo)
  const days = Math.floor((end - now) / DAY)
  const renew = brought
    ? `It is renewed by itself; "certificate not had" in the log says what prevents it.`
    : 'Renew it, then "systemctl reload postrider" (SIGHUP).'
  if (now >= end) return bad(check, `${file} has expired on ${certificate.validTo}`, renew)
  if (Date.parse(certificate.validFrom) > now)
    return bad(check, `${file} is valid only from ${certificate.validFrom}`, renew)
  if (!certificate.checkHost(name))
    return bad(check, `${file} is not for ${name}`, `Get one that names ${name}, which the MX records name.`)
  if (error !== null)
    return warn(check, `${file}, for ${days} more days, was not renewed: ${error}; next try at ${iso(retryAt)}`, lead)
  return endsSoon(file, now)
    ? warn(check, `${file} expires in ${days} days`, renew)
    : well(check, `${file}, for ${days} more days`)
}

export function judgeDisk({ data_dir }: Config): Finding {
  const check = 'disk'
  let place = data_dir
  while (!existsSync(place)) place = dirname(place)
  const free = freeOn(place)
  const inodes = freeInodesOn(place)
  const shown = free < 1e10 ? `${Math.round(free / 1e6)} MB` : `${(free / 1e9).toFixed(1)} GB`
  const mend = FIXES.disk
  if (free < SCARCE) return bad(check, `${shown} free at ${place}`, mend)
  if (inodes < FEW_INODES) return bad(check, `only ${inodes} inodes free at ${place}`, mend)
  return free < LITTLE ? warn(check, `${shown} free at ${place}`, mend) : well(check, `${shown} free at ${place}`)
}

/**
 * The write-ahead log, and who keeps it from beginning again. `heldFor` (ms) is known to the server alone; else the age
 * of the process stands for it.
 */
export function judgeLog({ data_dir }: Config, heldFor?: number): Finding {
  const check = 'write-ahead log'
  const file = join(data_dir, DATABASE)
  const octets = sizeOf(`${file}-wal`)
  const holders = holdersOf(file).map(holderText)
  const by = holders.length === 0 ? '' : `; the database is read by ${holders.join(', ')}`
  const age = heldFor ? `; the oldest state is held for ${spanOf(heldFor)}` : ''
  const detail = `${Math.round(octets / 1e6)} MB${by}${age}`
  return octets <= LONG_LOG
    ? well(check, detail)
    : warn(
        check,
        detail,
        holders.length === 0
          ? 'It gives its space back at the next write, unless another program reads the database.'
          : 'End what reads the database for so long: until then the log grows, and erasures wait.',
      )
}
