// Records as DNS has them: their type, their data, and their lines in a zone file (RFC 1035 §5.1).
import type { DnsRecord } from './records.ts'

type Issued = Pick<DnsRecord, 'record_type' | 'value'>

/** The type of a record that a domain needs. */
export const typeOf = ({ record_type }: Pick<Issued, 'record_type'>): 'MX' | 'CNAME' | 'TXT' =>
  record_type === 'MAIL_FROM_MX' || record_type === 'INBOUND_MX' ? 'MX' : record_type === 'TRACKING' ? 'CNAME' : 'TXT'

/** The value of a record in the fields of DNS providers, with a separate priority for MX. */
export function partsOf(record: Issued): { priority: string | undefined; value: string } {
  const [, priority, host] = /^(\d+) (.+)$/.exec(record.value) ?? []
  return typeOf(record) === 'MX' && host !== undefined
    ? { priority, value: host }
    : { priority: undefined, value: record.value }
}

/** A text in strings of at most 255 bytes (RFC 1035 §3.3). */
const quoted = (text: string): string =>
  (text.match(/.{1,255}/gs) ?? ['']).map((part) => `"${part.replace(/[\\"]/g, '\\$&')}"`).join(' ')

interface ZoneRecord {
  name: string
  ttl: number
  type: string
  value: string
}

export const zoneLine = ({ name, ttl, type, value }: ZoneRecord): string =>
  `${name}. ${ttl} IN ${type} ${type === 'TXT' ? quoted(value) : ['CNAME', 'MX', 'PTR'].includes(type) ? `${value}.` : value}`

/** The records that a domain needs as lines of a zone file. */
export const zoneFile = (records: readonly (Issued & Pick<DnsRecord, 'name' | 'ttl'>)[]): string =>
  records.map((record) => zoneLine({ ...record, type: typeOf(record) })).join('\n')
