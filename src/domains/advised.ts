// Optional records, besides the required ones, that make a domain's mail safer and that mail graders check (D78): SPF
// of the domain itself and of this server's HELO name, CAA, TLSA of this server's certificates, MTA-STS and TLS
// reports.
import { createHash, X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { sole } from '../base/lists.ts'
import type { Config } from '../base/config.ts'
import { sourcesOf } from '../base/sources.ts'
import type { Resolver } from '../net/resolver.ts'
import type { Domain } from './find.ts'
import { stsHost, stsRecord } from './inbound-sts.ts'
import { withReportsTo } from './report-addresses.ts'
import { sendersIn, TTL } from './records.ts'

export interface AdvisedRecord {
  record_type: 'FROM_SPF' | 'HELO_SPF' | 'CAA' | 'TLSA' | 'MTA_STS' | 'TLS_RPT'
  name: string
  /** DNS type. */
  type: 'TXT' | 'CAA' | 'TLSA' | 'CNAME'
  value: string
  ttl: number
  /** The domain's present record, when the advice depends on it; null: there is none, or DNS did not answer. */
  observed: string | null
  /** False when the advice depends on the present record and DNS did not answer. */
  answered: boolean
}

/** The present answer of DNS for a name. */
type AdvisedAnswer = Pick<AdvisedRecord, 'answered' | 'observed'>

export interface AdvisedDeps {
  config: Pick<Config, 'hostname' | 'acme' | 'notices' | 'delivery'>
  resolver: Pick<Resolver, 'txt'>
  /** SubjectPublicKeyInfo (DER) of the keys on port 25: the present one, and the next one when it is known. */
  publicKeys: readonly Uint8Array[]
  /** Names with a certificate from the authority. */
  certified: readonly string[]
}

/** The names of authorities in CAA records (RFC 8659 §4.2), by the host of their ACME directory. */
const ISSUERS: Record<string, string> = {
  'acme-v02.api.letsencrypt.org': 'letsencrypt.org',
  'acme-staging-v02.api.letsencrypt.org': 'letsencrypt.org',
  'acme.zerossl.com': 'sectigo.com',
  'dv.acme-v02.api.pki.goog': 'pki.goog',
  'api.buypass.com': 'buypass.com',
  'acme.ssl.com': 'ssl.com',
}

/** The advised records for a domain and this host. `reports`: the address for TLS reports. */
export async function advisedRecords(
  deps: AdvisedDeps,
  domain: Pick<Domain, 'name' | 'sts_mode' | 'sts_changed_at'>,
  reports: string,
): Promise<AdvisedRecord[]> {
  const { certified, config, publicKeys } = deps
  const { acme, hostname } = config
  const record = (
    record_type: AdvisedRecord['record_type'],
    type: AdvisedRecord['type'],
    name: string,
    value: string,
    { answered, observed }: AdvisedAnswer = { answered: true, observed: null },
  ): AdvisedRecord => ({ record_type, name, type, value, ttl: TTL, observed, answered })
  const issuer = ISSUERS[new URL(acme.directory).host]
  const caa = acme.enabled && issuer !== undefined ? [...new Set([hostname, ...certified])] : []
  const spf = await fromSpf(deps, domain.name)
  const names = [...new Set([hostname, ...sourcesOf(config).map((source) => source.hostname)])]
  const sts = domain.sts_changed_at === null ? undefined : await publishedSts(deps, domain.name)
  const tlsReports = await reportRecord(deps, domain.name, reports)
  return [
    record('FROM_SPF', 'TXT', domain.name, spf.value, spf),
    ...names.filter((name) => isIP(name) === 0).map((name) => record('HELO_SPF', 'TXT', name, 'v=spf1 a -all')),
    ...caa.map((name) => record('CAA', 'CAA', name, `0 issue "${issuer}"`)),
    ...publicKeys.map((key) => record('TLSA', 'TLSA', `_25._tcp.${hostname}`, tlsaValue(key))),
    ...(domain.sts_changed_at === null
      ? []
      : [
          record('MTA_STS', 'CNAME', stsHost(domain.name), hostname),
          record('MTA_STS', 'TXT', `_mta-sts.${domain.name}`, stsRecord(domain.sts_mode, hostname), sts),
        ]),
    record('TLS_RPT', 'TXT', `_smtp._tls.${domain.name}`, tlsReports.value, tlsReports),
  ]
}

/** DANE-EE, public key, SHA-256 (RFC 7672 §3.1.1): valid as long as the key is in use. */
const tlsaValue = (publicKey: Uint8Array): string => `3 1 1 ${createHash('sha256').update(publicKey).digest('hex')}`

/** SubjectPublicKeyInfo of the first certificate of a chain. */
export const publicKeyOf = (chain: string): Uint8Array =>
  new X509Certificate(chain).publicKey.export({ type: 'spki', format: 'der' })

/** The present value of _mta-sts of a domain: when its id differs, it must be changed. */
async function publishedSts({ resolver }: AdvisedDeps, domain: string): Promise<AdvisedAnswer> {
  const answer = await resolver.txt(`_mta-sts.${domain}`)
  const found = answer.kind === 'found' ? answer.records.find((text) => /^v=STSv1\s*;/.test(text)) : undefined
  return { answered: answer.kind !== 'failed', observed: found ?? null }
}

/** The record for TLS reports: ours, or a published one with our address beside its own (RFC 8460 §3). */
async function reportRecord(
  { resolver }: AdvisedDeps,
  domain: string,
  reports: string,
): Promise<AdvisedAnswer & { value: string }> {
  const answer = await resolver.txt(`_smtp._tls.${domain}`)
  const found = answer.kind === 'found' ? answer.records.filter((text) => /^v=TLSRPTv1\s*;/.test(text)) : []
  // Several records are as good as none.
  const present = sole(found)
  const value = present === undefined ? `v=TLSRPTv1; rua=mailto:${reports}` : withReportsTo(present, reports)
  return { value, answered: answer.kind !== 'failed', observed: found.join('\n') || null }
}

/** SPF of the From domain: a new record when it has none, else its record with this host and its sources added. */
async function fromSpf({ config, resolver }: AdvisedDeps, domain: string): Promise<AdvisedAnswer & { value: string }> {
  const answer = await resolver.txt(domain)
  const answered = answer.kind !== 'failed'
  const [present] = answer.kind === 'found' ? answer.records.filter((text) => /^v=spf1(\s|$)/i.test(text)) : []
  const mechanisms = sendersIn(config)
  if (present === undefined) return { value: `v=spf1 ${mechanisms.join(' ')} ~all`, answered, observed: null }
  const terms = present.split(/\s+/)
  const known = new Set(terms.map((term) => term.toLowerCase().replace(/^\+/, '')))
  const missing = mechanisms.filter((mechanism) => !known.has(mechanism))
  if (missing.length === 0) return { value: present, answered, observed: present }
  // It is added before "all", because terms after "all" are ignored (RFC 7208 §5.1).
  const all = terms.findIndex((term) => /^[-~?+]?all$|^redirect=/i.test(term))
  const value = terms.toSpliced(all < 0 ? terms.length : all, 0, ...missing).join(' ')
  return { value, answered, observed: present }
}
