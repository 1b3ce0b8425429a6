// A reporter: sends reports as providers write them, in messages that are signed and sent as theirs are.
import assert from 'node:assert/strict'
import { beforeEach } from 'node:test'
import { gzipSync } from 'node:zlib'
import { dkimSign } from 'mailauth/lib/dkim/sign.js'
import type { KeyPair } from '../../src/domains/keys.ts'
import { raw } from '../../src/store/query.ts'
import type { TestAppliance } from '../kit/appliance.ts'
import { usedKeyPair } from '../kit/keys.ts'
import { ofFile } from '../kit/of-file.ts'
import { deliver } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import type { TestDns } from '../kit/zone.ts'

export const DAY = 86_400

export interface RecordSaid {
  address?: string
  count?: number
  dkim?: 'pass' | 'fail'
  spf?: 'pass' | 'fail'
  disposition?: string
  from?: string
  reason?: string
  /** Domains whose DKIM signature passed. */
  signed?: readonly string[]
}

export interface ReportSaid {
  domain?: string
  id?: string
  /** Seconds. */
  begin?: number
  org?: string
  records?: readonly RecordSaid[]
}

let ids = 0
/** The day that tests report about: yesterday of the kit's clock, in seconds. */
export const YESTERDAY = Date.UTC(2026, 0, 14) / 1000

const recordOf = (
  domain: string,
  {
    address = '192.0.2.1',
    count = 1,
    dkim = 'pass',
    disposition = 'none',
    from,
    reason,
    signed = [domain],
    spf = 'pass',
  }: RecordSaid,
): string => `<record><row><source_ip>${address}</source_ip><count>${count}</count><policy_evaluated>
  <disposition>${disposition}</disposition><dkim>${dkim}</dkim><spf>${spf}</spf>
  ${reason === undefined ? '' : `<reason><type>${reason}</type></reason>`}</policy_evaluated></row>
  <identifiers><header_from>${from ?? domain}</header_from></identifiers><auth_results>
  ${signed.map((each) => `<dkim><domain>${each}</domain><result>pass</result></dkim>`).join('')}
  </auth_results></record>`

export const dmarcReport = ({
  begin = YESTERDAY,
  domain = 'here.test',
  id = `report-${++ids}`,
  org = 'Reporter',
  records = [{}],
}: ReportSaid = {}): string => `<?xml version="1.0"?><feedback><report_metadata><org_name>${org}</org_name>
<email>noreply@reporter.test</email><report_id>${id}</report_id>
<date_range><begin>${begin}</begin><end>${begin + DAY - 1}</end></date_range></report_metadata>
<policy_published><domain>${domain}</domain><p>none</p></policy_published>
${records.map((each) => recordOf(domain, each)).join('\n')}</feedback>`

export interface PolicySaid {
  type?: string
  domain?: string
  success?: number
  failure?: number
  result?: string
}

export const tlsReport = ({
  begin = YESTERDAY,
  id = `tls-${++ids}`,
  policies = [{}],
}: { begin?: number; id?: string; policies?: readonly PolicySaid[] } = {}): string =>
  JSON.stringify({
    'organization-name': 'Reporter',
    'contact-info': 'tls@reporter.test',
    'report-id': id,
    'date-range': {
      'start-datetime': new Date(begin * 1000).toISOString(),
      'end-datetime': new Date((begin + DAY - 1) * 1000).toISOString(),
    },
    policies: policies.map(
      ({
        domain = 'here.test',
        failure = 0,
        result = 'certificate-expired',
        success = 1,
        type = 'no-policy-found',
      }) => ({
        policy: { 'policy-type': type, 'policy-domain': domain },
        summary: { 'total-successful-session-count': success, 'total-failure-session-count': failure },
        'failure-details': failure === 0 ? [] : [{ 'result-type': result, 'failed-session-count': failure }],
      }),
    ),
  })

/** A message with one attachment. */
export const mailWith = (
  attachment: Buffer | string,
  { from, to }: { from: string; to: string },
  type = 'application/gzip',
): string =>
  `From: Reports <${from}>
To: ${to}
Subject: Report Domain: here.test
Message-ID: <${++ids}@reports.test>
MIME-Version: 1.0
Content-Type: ${type}
Content-Transfer-Encoding: base64

${Buffer.from(attachment).toString('base64').replace(/.{76}/g, '$&\n')}
`

export interface Reporter {
  /** Sends a message from an address of the reporter, signed, and waits until it was read. */
  send: (message: string, to: string, how?: SendOptions) => Promise<void>
  /** Sends a DMARC report. */
  dmarc: (said?: ReportSaid, to?: string, how?: SendOptions) => Promise<void>
  tls: (said?: Parameters<typeof tlsReport>[0], to?: string, how?: SendOptions) => Promise<void>
}

interface SendOptions {
  /** The domain that signs, or null for no signature. */
  signedBy?: string | null
  /** `l=`: the number of signed bytes. */
  bodyLength?: number
}

export const DMARC_TO = 'dmarc-reports@bounce.here.test'
export const TLS_TO = 'tls-reports@bounce.here.test'

/** A message with the signature of a provider. */
export type Signer = (message: string, how?: SendOptions) => Promise<string>

const keys = new Map<string, Promise<KeyPair>>()
/** The key of a provider, which stays the same: a server that tests share may still have it in its cache. */
function keyOf(domain: string): Promise<KeyPair> {
  const known = keys.get(domain) ?? usedKeyPair(2048)
  keys.set(domain, known)
  return known
}

/** Publishes the DMARC policy and the key of a provider. `services`: `s=` of its key. */
export async function signerOf(dns: TestDns, domain: string, services = ''): Promise<Signer> {
  const { privateKey, publicKey } = await keyOf(domain)
  dns.set(`reports._domainkey.${domain}`, 'TXT', [`v=DKIM1; k=rsa;${services} p=${publicKey}`])
  dns.set(`_dmarc.${domain}`, 'TXT', ['v=DMARC1; p=reject'])
  return async (message, { bodyLength, signedBy = domain } = {}) => {
    const wire = message.replaceAll('\n', '\r\n')
    if (signedBy === null) return message
    const key = { signingDomain: signedBy, selector: 'reports', privateKey }
    const { signatures } = await dkimSign(wire, {
      ...key,
      signatureData: [bodyLength === undefined ? key : { ...key, maxBodyLength: bodyLength }],
    })
    return (signatures + wire).replaceAll('\r\n', '\n')
  }
}

/** A provider that publishes DMARC and signs its reports. */
export async function reporterOf(postrider: TestAppliance, domain: string, services = ''): Promise<Reporter> {
  const sign = await signerOf(postrider.dns, domain, services)
  const from = `noreply@${domain}`
  async function send(message: string, to: string, how: SendOptions = {}): Promise<void> {
    const signed = await sign(message, how)
    const [verdict] = await deliver(postrider.appliance.smtp[0]!, { from, to, message: signed })
    assert.equal(verdict?.kind, 'delivered')
    await read(postrider)
  }
  return {
    send,
    dmarc: (said, to = DMARC_TO, how = {}) => send(mailWith(gzipSync(dmarcReport(said)), { from, to }), to, how),
    tls: (said, to = TLS_TO, how = {}) =>
      send(mailWith(gzipSync(tlsReport(said)), { from, to }, 'application/tlsrpt+gzip'), to, how),
  }
}

/** A server that the tests of a file share. Each test starts without the reports, notices and events of the others. */
export function reportServer<T extends TestAppliance>(start: () => Promise<T>): T {
  const postrider = ofFile(start)
  const tables = ['aggregate_reports', 'dmarc_figures', 'tls_figures', 'known_sources', 'inbound_emails']
  beforeEach(() =>
    postrider.appliance.deps.store.write((tx) => {
      for (const table of [...tables, 'inbound_messages', 'notices', 'events']) tx.run(raw(`delete from ${table}`))
    }),
  )
  return postrider
}

/** Waits until everything that came was read. */
export const read = (postrider: TestAppliance): Promise<unknown> =>
  until(
    () => postrider.appliance.deps.store.first(raw('select 1 from inbound_waiting')) === undefined,
    'the reading of a report',
  )

export interface ReportShown {
  kind: string
  reporter: string | null
  org_name: string | null
  report_id: string | null
  authenticated: boolean
  outcome: string
  reason: string | null
  format: string | null
  records: number
  skipped_records: number
  messages: number | null
  pass: number | null
  fail: number | null
  successful_sessions: number | null
  failed_sessions: number | null
  warnings: string[]
}

/** The reports of a domain as the API lists them, the newest first. */
export async function reportsOf(postrider: TestAppliance, domainId: string, query = ''): Promise<ReportShown[]> {
  const { body, status } = await postrider.api(
    'GET',
    `/domains/${domainId}/aggregate-reports?page[size]=100&sort=-created_at${query}`,
  )
  assert.equal(status, 200, JSON.stringify(body))
  return (body.data as { attributes: ReportShown }[]).map(({ attributes }) => attributes)
}

/** The rows of a resource below a domain. */
export async function rowsOf(
  postrider: TestAppliance,
  domainId: string,
  path: string,
): Promise<Record<string, never>[]> {
  const { body, status } = await postrider.api('GET', `/domains/${domainId}/${path}`)
  assert.equal(status, 200, JSON.stringify(body))
  return [body.data].flat().map(({ attributes }: { attributes: Record<string, never> }) => attributes)
}
