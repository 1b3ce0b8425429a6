// What the commands for domains print: a domain, its records with their state, and the lines of a zone file.
import { iso } from '../base/clock.ts'
import type { AdvisedRecord } from '../domains/advised.ts'
import type { Domain } from '../domains/find.ts'
import { isOfHost, type DnsRecord } from '../domains/records.ts'
import { zoneLine } from './domain-policies.ts'
import { table } from './terminal.ts'

/** A domain for `--json`. */
export const shownDomain = (domain: Domain) => ({
  id: domain.id,
  name: domain.name,
  purpose: domain.purpose,
  region: domain.region,
  mail_from_prefix: domain.mail_from_prefix,
  tls_policy: domain.tls_policy,
  open_tracking_enabled: domain.open_tracking_enabled === 1,
  click_tracking_enabled: domain.click_tracking_enabled === 1,
  tracking_redirect_mode: domain.tracking_redirect_mode,
  status: domain.status,
  checked_at: domain.checked_at === null ? null : iso(domain.checked_at),
  next_check_at: domain.next_check_at === null ? null : iso(domain.next_check_at),
  created_at: iso(domain.created_at),
  updated_at: iso(domain.updated_at),
})

/** A record for `--json`. */
export const shownRecord = ({ record_type, name, value, ttl, required, verified, observed }: DnsRecord) => ({
  record_type,
  name,
  value,
  ttl,
  required: required === 1,
  verified: verified === 1,
  observed,
})

/** Records as lines of a zone file; long texts are split into strings of at most 255 octets (RFC 1035 §3.3). */
export function zoneFile(records: readonly Pick<DnsRecord, 'record_type' | 'name' | 'value' | 'ttl'>[]): string {
  return records
    .map(({ record_type, name, value, ttl }) => {
      const text = (value.match(/.{1,255}/gs) ?? ['']).map((part) => `"${part.replace(/[\\"]/g, '\\$&')}"`).join(' ')
      const [type, data] =
        record_type === 'MAIL_FROM_MX' || record_type === 'INBOUND_MX'
          ? ['MX', `${value}.`]
          : record_type === 'TRACKING'
            ? ['CNAME', `${value}.`]
            : ['TXT', text]
      return `${name}. ${ttl} IN ${type} ${data}`
    })
    .join('\n')
}

/** The records with their state, and as zone lines to paste. */
export function recordsText(records: readonly DnsRecord[], advised: readonly AdvisedRecord[] = []): string {
  const rows = [
    ...records.map((record) => ({
      ...record,
      state: record.verified ? 'ok' : record.required ? 'missing' : record.observed === null ? 'advised' : 'to change',
    })),
    ...advised.map((record) => ({
      ...record,
      state: record.observed === null ? 'advised' : record.observed === record.value ? 'ok' : 'to change',
    })),
  ].map(({ name, record_type, state, value }) => [
    state,
    record_type,
    name,
    value.length > 60 ? `${value.slice(0, 57)}…` : value,
  ])
  return `${table(['STATE', 'RECORD', 'NAME', 'VALUE'], rows)}\n\nAs lines of a zone file:\n\n${zoneText(records, advised)}\n`
}

export const zoneText = (records: readonly DnsRecord[], advised: readonly AdvisedRecord[]): string =>
  [zoneFile(records), ...advised.map(zoneLine)].join('\n')

/** Sentences about published records that name another host. */
export function elsewhere(records: readonly DnsRecord[]): string[] {
  return records
    .filter(({ observed, record_type, verified }) => verified === 0 && observed !== null && isOfHost({ record_type }))
    .map(
      ({ name, observed, record_type, value }) =>
        `The ${record_type === 'SPF' ? 'SPF' : 'MX'} record at ${name} names another host: it says "${observed!.replaceAll('\n', '; ')}" and should say "${value}".`,
    )
}
