// The domains of Mailgun's clients.
import { allOf, CompatError, type CompatAnswer, type CompatCall, type CompatResource } from './kit.ts'
import { RECORD_TYPES, mxValue } from './records.ts'

/** The sending domain that a path names: the domain itself, or its nearest parent of the account. Throws 404. */
export async function domainNamed({ askForDomains }: CompatCall, name: string): Promise<CompatResource> {
  const labels = name.split('.')
  const names = labels
    .slice(0, -1)
    .map((_, index) => labels.slice(index).join('.'))
    .slice(0, 10)
  const found = names.length === 0 ? [] : await askForDomains(names)
  for (const each of names) {
    const domain = found.find(({ attributes }) => attributes['name'] === each)
    if (domain) return domain
  }
  throw noDomain(name)
}

export const noDomain = (name: string): CompatError =>
  new CompatError(404, [{ code: 'not_found', detail: `Domain not found: ${name.slice(0, 253)}`, field: 'domain' }])

const stateOf = (status: unknown): string =>
  status === 'active' ? 'active' : status === 'suspended' ? 'disabled' : 'unverified'

const domainOf = ({ attributes, id }: CompatResource): object => ({
  id,
  name: attributes['name'],
  state: stateOf(attributes['status']),
  type: 'custom',
  created_at: new Date(String(attributes['created_at'])).toUTCString(),
  is_disabled: attributes['status'] === 'suspended',
  require_tls: attributes['tls_policy'] === 'Require',
  web_prefix: attributes['tracking_redirect_mode'] === 'branded' ? 'links' : '',
  web_scheme: 'https',
  wildcard: false,
  spam_action: 'disabled',
  skip_verification: false,
  smtp_login: '',
})

export async function listDomains({ ask }: CompatCall): Promise<CompatAnswer> {
  const items = (await allOf(ask, '/domains?sort=name&page[size]=100')).map(domainOf)
  return { body: { total_count: items.length, items } }
}

export async function showDomain(call: CompatCall): Promise<CompatAnswer> {
  const name = (call.params['domain'] ?? '').toLowerCase()
  const [domain] = await allOf(call.ask, `/domains?filter[name]=${encodeURIComponent(name)}`)
  if (!domain) throw noDomain(name)
  const records = await allOf(call.ask, `/domains/${domain.id}/records`)
  const of = (receives: boolean): object[] =>
    records.filter(({ attributes }) => (attributes['record_type'] === 'INBOUND_MX') === receives).map(recordOf)
  return { body: { domain: domainOf(domain), sending_dns_records: of(false), receiving_dns_records: of(true) } }
}

function recordOf({ attributes }: CompatResource): object {
  const type = RECORD_TYPES[String(attributes['record_type'])] ?? 'TXT'
  const mx = type === 'MX' ? mxValue(attributes['value']) : undefined
  return {
    record_type: type,
    name: attributes['name'],
    value: mx?.host ?? attributes['value'],
    valid: attributes['verified'] === true ? 'valid' : 'unknown',
    ...(mx && { priority: String(mx.priority) }),
  }
}
