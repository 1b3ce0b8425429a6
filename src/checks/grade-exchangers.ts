// Checks TLS, certificates and DANE of a domain's exchangers (internet.nl, NCSC-NL guidelines 2025-05).
import { systemClock } from '../base/clock.ts'
import { pairs } from '../base/lists.ts'
import { authoritiesOf, type Config } from '../base/config.ts'
import type { AskDns } from '../net/dns-question.ts'
import type { Tlsa } from '../net/resolver.ts'
import { recordFrom } from '../net/validated.ts'
import { judgeByDane } from '../smtp/dane.ts'
import { countingRecords } from '../smtp/tlsa.ts'
import { isOurs, judged, theirs, worse, type GradeDeps, type GradeRow } from './grade-rows.ts'
import { readAuthorities } from '../base/tls.ts'
import { shake, type Handshake, type ExchangerPlace } from './grade-tls.ts'

/** This server's own exchanger is tested at its configured port, which may differ from the public port. */
export function placeOf({ hostname, smtp }: Config, host: string, address: string): ExchangerPlace {
  return { host, address, port: host === hostname ? (smtp.listen[0]?.port ?? 25) : 25 }
}

/** Cipher suites that NCSC-NL rates neither good nor sufficient, by OpenSSL's names. */
const WEAK = [
  'ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA256',
  'ECDHE-ECDSA-AES256-SHA:ECDHE-RSA-AES256-SHA:ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA',
  'AES256-GCM-SHA384:AES128-GCM-SHA256:AES256-SHA256:AES128-SHA256:AES256-SHA:AES128-SHA:DES-CBC3-SHA',
].join(':')
const GOOD_GROUPS =
  /^(?:X25519|X448|prime256v1|P-256|secp384r1|P-384|secp521r1|P-521|brainpool.*|X25519MLKEM768|ffdhe.*)$/

/**
 * Rows for all exchangers of a domain. A failure of another operator's exchanger is marked as theirs; without
 * exchangers nothing is tested.
 */
export async function encryption(deps: GradeDeps, domain: string, exchangers: readonly string[]): Promise<GradeRow[]> {
  const ours = exchangers.filter((host) => isOurs(deps, host))
  const others = exchangers.filter((host) => !isOurs(deps, host))
  const [own, foreign] = await Promise.all([shown(deps, domain, ours), shown(deps, domain, others)])
  if (exchangers.length === 0) return own.map((row) => ({ ...row, result: 'not_asked', mend: null }))
  if (others.length === 0) return own
  const judgedOthers = foreign.map((row) => theirs(row, `Whoever runs ${others.join(', ')}`))
  return ours.length === 0 ? judgedOthers : pairs(own, judgedOthers).map(([mine, judged]) => worse(mine, judged))
}

async function shown(deps: GradeDeps, domain: string, exchangers: readonly string[]): Promise<GradeRow[]> {
  const probes = await probeAll(deps, exchangers)
  const [host = deps.config.hostname] = exchangers
  return [
    ...handshakeRows(probes, `the exchangers of ${domain}`),
    ...certificateRows(probes, host, domain),
    ...daneRows(probes, host, domain),
  ]
}

/** Tests the first address of each exchanger; an exchanger without an address is left out. */
async function probeAll({ ask, config, resolver }: GradeDeps, exchangers: readonly string[]): Promise<Probe[]> {
  const authority = readAuthorities(authoritiesOf(config))
  const places: ExchangerPlace[] = []
  for (const host of exchangers) {
    const [four, six] = await Promise.all([resolver.a(host), resolver.aaaa(host)])
    const [address] = [four, six].flatMap((found) => (found.kind === 'found' ? found.records : []))
    if (address !== undefined) places.push(placeOf(config, host, address))
  }
  return Promise.all(places.map((place) => probe(ask, place, authority)))
}

/** Whether every probe passes a test; false without probes. */
const all = (probes: readonly Probe[], test: (one: Probe) => boolean): boolean =>
  probes.length > 0 && probes.every(test)

function handshakeRows(probes: readonly Probe[], where: string): GradeRow[] {
  const row = judged('starttls')
  return [
    row(
      'starttls',
      all(probes, ({ best }) => best !== undefined),
      `Let ${where} offer STARTTLS on port 25, and be reached.`,
    ),
    row(
      'tls_version',
      all(probes, ({ best, old }) => best !== undefined && old === undefined),
      `Let ${where} speak TLS 1.2 and 1.3 alone.`,
    ),
    row(
      'ciphers',
      all(probes, ({ best, weak }) => best !== undefined && weak === undefined),
      `Let ${where} agree to ECDHE with AEAD alone.`,
    ),
    row(
      'cipher_order',
      all(probes, ({ best, weak }) => best !== undefined && weak === undefined),
      'With good suites alone their order does not count.',
    ),
    row(
      'key_exchange',
      all(probes, ({ best }) => best?.group !== undefined && GOOD_GROUPS.test(best.group)),
      'Use X25519, P-256 or P-384 for the key exchange.',
    ),
    ...['compression', 'renegotiation', 'extended_master_secret', 'zero_rtt'].map((test): GradeRow => ({
      category: 'starttls',
      test,
      result: 'not_asked',
      mend: null,
    })),
  ]
}

function certificateRows(probes: readonly Probe[], host: string, domain: string): GradeRow[] {
  const row = judged('certificate')
  return [
    row(
      'public_key',
      all(probes, ({ best }) => best !== undefined && strongKey(best)),
      'Get a certificate with a key of P-256, or RSA with 3072 bits.',
    ),
    row(
      'trust',
      all(probes, ({ best }) => best?.trusted === true),
      `Get a certificate for ${host} from an authority: "[acme]" in the configuration.`,
    ),
    row(
      'host',
      all(probes, ({ best, place }) => best !== undefined && names(best, place.host)),
      `Get a certificate that names ${host}.`,
    ),
    row(
      'caa',
      all(probes, ({ caa }) => caa),
      `Publish a CAA record with "issue" for ${host}: "postrider domain records ${domain}".`,
    ),
  ]
}

function daneRows(probes: readonly Probe[], host: string, domain: string): GradeRow[] {
  const row = judged('dane')
  return [
    row(
      'tlsa',
      all(probes, ({ tlsa }) => tlsa.length > 0),
      `Publish the TLSA records of ${host}: "postrider domain records ${domain}".`,
    ),
    row(
      'tlsa_valid',
      all(probes, ({ best, place, tlsa }) => best !== undefined && prove(tlsa, best, place.host, domain)),
      `The TLSA records of ${host} do not fit its certificate: publish those of "postrider domain records ${domain}".`,
    ),
    // Not a failure: a single key works now, but a change of the key will break it.
    all(probes, ({ tlsa }) => tlsa.length > 1)
      ? row('tlsa_rollover', true, '')
      : { category: 'dane', test: 'tlsa_rollover', result: 'not_asked', mend: null },
  ]
}

interface Probe {
  place: ExchangerPlace
  best: Handshake | undefined
  /** `old`: a handshake with a version before 1.2; `weak`: one with a weak suite. */
  old: Handshake | undefined
  weak: Handshake | undefined
  caa: boolean
  tlsa: Tlsa[]
}

async function probe(ask: AskDns, place: ExchangerPlace, authority: string | undefined): Promise<Probe> {
  const shaken = async (options = {}): Promise<Handshake | undefined> => {
    const result = await shake(place, authority, options)
    return typeof result === 'string' ? undefined : result
  }
  const best = await shaken()
  const old = await shaken({ minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' })
  const weak = await shaken({ maxVersion: 'TLSv1.2', ciphers: `${WEAK}@SECLEVEL=0` })
  const tlsa = (await ask(`_25._tcp.${place.host}`, 'TLSA'))?.answers.flatMap((each) =>
    each.type === 'TLSA' ? [recordFrom(each.data)] : [],
  )
  return { place, best, old, weak, caa: await hasCaa(ask, place.host), tlsa: tlsa ?? [] }
}

/** Whether the name or a parent has a CAA record (RFC 8659 §3). */
async function hasCaa(ask: AskDns, host: string): Promise<boolean> {
  const labels = host.split('.')
  for (let at = 0; at < labels.length - 1; at++) {
    const found = (await ask(labels.slice(at).join('.'), 'CAA'))?.answers ?? []
    if (found.some((each) => each.type === 'CAA' && each.data.tag === 'issue')) return true
  }
  return false
}

function strongKey({ certificate }: Handshake): boolean {
  const { bits = 0, modulus } = certificate as { bits?: number; modulus?: string }
  return modulus === undefined ? bits >= 256 : bits >= 3072
}

const names = ({ certificate: { subjectaltname = '' } }: Handshake, host: string): boolean =>
  subjectaltname
    .split(', ')
    .some(
      (each) =>
        each === `DNS:${host}` || (each.startsWith('DNS:*.') && host.slice(host.indexOf('.')) === each.slice(5)),
    )

/** Whether the records prove an exchanger to those who send to a domain (RFC 7672 §3.1). */
function prove(records: readonly Tlsa[], { shown }: Handshake, host: string, domain: string): boolean {
  const counting = countingRecords(records)
  const judged = judgeByDane({ base: host, names: [host, domain], records: counting }, shown, systemClock.now())
  return counting.length > 0 && typeof judged === 'string'
}
