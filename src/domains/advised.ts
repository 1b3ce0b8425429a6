// Records in addition to those that a domain needs: of the server itself (host-records.ts), and optional ones that make
// a domain's mail safer and that mail graders check (D78): SPF of the domain itself and of this server's HELO name,
// CAA, TLSA of this server's certificates, MTA-STS and TLS reports.
import { createHash, X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { sole } from '../base/lists.ts'
import type { Config } from '../base/config.ts'
import { sourcesOf } from '../base/sources.ts'
import type { Resolver } from '../net/resolver.ts'
import type { Domain } from './find.ts'
import { answerOf, type AdvisedAnswer, type AdvisedRecord } from './advised-record.ts'
import { hostRecords } from './host-records.ts'
import { stsHost, stsRecord } from './inbound-sts.ts'
import { withReportsTo } from './dmarc.ts'
import { sendersIn, TTL } from './records.ts'

const NOT_ASKED: AdvisedAnswer = { answered: true, observed: null, state: 'not_checked' }

export interface AdvisedDeps {
  config: Pick<Config, 'hostname' | 'acme' | 'notices' | 'delivery'>
  resolver: Pick<Resolver, 'a' | 'aaaa' | 'cname' | 'ptr' | 'tlsa' | 'txt'>
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

/** The records of this server, and those advised for a domain. `reports`: the address for TLS reports. */
export async function advisedRecords(
  deps: AdvisedDeps,
  domain: Pick<Domain, 'name' | 'sts_mode' | 'sts_changed_at'>,
  reports: string,
): Promise<AdvisedRecord[]> {
  const { certified, config } = deps
  const { acme, hostname } = config
  const record = (
    record_type: AdvisedRecord['record_type'],
    type: AdvisedRecord['type'],
    name: string,
    value: string,
    { answered, observed, state }: AdvisedAnswer = NOT_ASKED,
  ): AdvisedRecord => ({ record_type, name, type, value, ttl: TTL, observed, answered, state })
  const issuer = ISSUERS[new URL(acme.directory).host]
  const caa = acme.enabled && issuer !== undefined ? [...new Set([hostname, ...certified])] : []
  const sources = [hostname, ...sourcesOf(config).map((source) => source.hostname)]
  const names = [...new Set(sources)].filter((name) => isIP(name) === 0)
  const [own, spf, helos, keys, sts, tlsReports] = await Promise.all([
    hostRecords(deps),
    spfFor(deps, domain.name, sendersIn(config), '~all'),
    Promise.all(names.map(async (name) => [name, await spfFor(deps, name, ['a'], '-all')] as const)),
    publishedKeys(deps, `_25._tcp.${hostname}`),
    domain.sts_changed_at === null ? undefined : publishedSts(deps, domain),
    reportRecord(deps, domain.name, reports),
  ])
  return [
    ...own,
    record('FROM_SPF', 'TXT', domain.name, spf.value, spf),
    ...helos.map(([name, helo]) => record('HELO_SPF', 'TXT', name, helo.value, helo)),
    ...caa.map((name) => record('CAA', 'CAA', name, `0 issue "${issuer}"`)),
    ...keys.map(({ name, value, which, ...answer }) => ({ ...record('TLSA', 'TLSA', name, value, answer), ...which })),
    ...(sts
      ? [
          record('MTA_STS', 'CNAME', stsHost(domain.name), hostname, sts.host),
          record('MTA_STS', 'TXT', `_mta-sts.${domain.name}`, sts.value, sts.text),
        ]
      : []),
    record('TLS_RPT', 'TXT', `_smtp._tls.${domain.name}`, tlsReports.value, tlsReports),
  ]
}

/** The TLSA records of the keys on port 25. Other records at the name are kept. */
async function publishedKeys({ publicKeys, resolver }: AdvisedDeps, name: string) {
  if (publicKeys.length === 0) return []
  const answer = await resolver.tlsa(name)
  const found = (answer.kind === 'found' ? answer.records : []).map(
    ({ data, matching, selector, usage }) => `${usage} ${selector} ${matching} ${data}`,
  )
  return publicKeys.map((key, at) => {
    const value = tlsaValue(key)
    const { observed, state } = answerOf(answer.kind, found.includes(value) ? value : null, value)
    const which = publicKeys.length > 1 ? { which: at === 0 ? 'present key' : 'next key' } : {}
    return { name, value, which, observed, state, answered: true }
  })
}

/** DANE-EE, public key, SHA-256 (RFC 7672 §3.1.1): valid as long as the key is in use. */
const tlsaValue = (publicKey: Uint8Array): string => `3 1 1 ${createHash('sha256').update(publicKey).digest('hex')}`

/** SubjectPublicKeyInfo of the first certificate of a chain. */
export const publicKeyOf = (chain: string): Uint8Array =>
  new X509Certificate(chain).publicKey.export({ type: 'spki', format: 'der' })

/** The present value of a domain's _mta-sts record, which must change if its id differs, and the host of its policy. */
async function publishedSts(
  { config: { hostname }, resolver }: AdvisedDeps,
  { name, sts_mode }: Pick<Domain, 'name' | 'sts_mode'>,
): Promise<{ value: string; text: AdvisedAnswer; host: AdvisedAnswer }> {
  const [text, host] = await Promise.all([resolver.txt(`_mta-sts.${name}`), resolver.cname(stsHost(name))])
  const found = text.kind === 'found' ? text.records.find((each) => /^v=STSv1\s*;/.test(each)) : undefined
  const target = host.kind === 'found' ? (host.records[0] ?? null) : null
  const value = stsRecord(sts_mode, hostname)
  return {
    value,
    text: answerOf(text.kind, found ?? null, value),
    host: { ...answerOf(host.kind, target, hostname), answered: true },
  }
}

/** The record for TLS reports: a new one, or the published one with this server's address added (RFC 8460 §3). */
async function reportRecord(
  { resolver }: AdvisedDeps,
  domain: string,
  reports: string,
): Promise<AdvisedAnswer & { value: string }> {
  const answer = await resolver.txt(`_smtp._tls.${domain}`)
  const found = answer.kind === 'found' ? answer.records.filter((text) => /^v=TLSRPTv1\s*;/.test(text)) : []
  // Receivers ignore multiple records.
  const present = sole(found)
  const value = present === undefined ? `v=TLSRPTv1; rua=mailto:${reports}` : withReportsTo(present, reports)
  return { value, ...answerOf(answer.kind, found.join('\n') || null, value) }
}

/** The SPF record of a name: a new record, or the present one with these mechanisms added. */
async function spfFor(
  { resolver }: AdvisedDeps,
  name: string,
  mechanisms: readonly string[],
  all: string,
): Promise<AdvisedAnswer & { value: string }> {
  const answer = await resolver.txt(name)
  const found = answer.kind === 'found' ? answer.records.filter((text) => /^v=spf1(\s|$)/i.test(text)) : []
  const [present = null] = found
  const value = present === null ? `v=spf1 ${mechanisms.join(' ')} ${all}` : withTerms(present, mechanisms)
  return { value, ...answerOf(answer.kind, present, value) }
}

function withTerms(present: string, mechanisms: readonly string[]): string {
  const terms = present.split(/\s+/)
  const known = new Set(terms.map((term) => term.toLowerCase().replace(/^\+/, '')))
  const missing = mechanisms.filter((mechanism) => !known.has(mechanism))
  if (missing.length === 0) return present
  // It is added before "all", because terms after "all" are ignored (RFC 7208 §5.1).
  const all = terms.findIndex((term) => /^[-~?+]?all$|^redirect=/i.test(term))
  return terms.toSpliced(all < 0 ? terms.length : all, 0, ...missing).join(' ')
}
