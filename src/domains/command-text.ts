// The output of the commands for domains: a domain, its records with their state, and the lines of a zone file.
import { iso } from '../base/clock.ts'
import type { AdvisedRecord } from './advised.ts'
import type { Domain } from './find.ts'
import { isAnswered, isOfHost, type DnsRecord } from './records.ts'
import { typeOf, zoneFile, zoneLine } from './zone-lines.ts'
import { table } from '../commands/terminal.ts'

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
const shownRecord = (record: DnsRecord, domain: Domain) => ({
  record_type: record.record_type,
  name: record.name,
  value: record.value,
  ttl: record.ttl,
  required: record.required === 1,
  verified: record.verified === 1,
  observed: record.observed,
  /** Whether DNS answered for it at the last check of the domain. */
  answered: isAnswered(record, domain),
})

/** All records of a domain for `--json`, required ones first. */
export const shownRecords = ({ advised, domain, records }: DomainRecords) => [
  ...inOrder(records).map((record) => shownRecord(record, domain)),
  ...advised.map((each) => ({ ...each, required: false, verified: false })),
]

/** The required and the advised DNS records of a domain. */
export interface DomainRecords {
  domain: Domain
  records: readonly DnsRecord[]
  advised: readonly AdvisedRecord[]
}

const inOrder = (records: readonly DnsRecord[]): DnsRecord[] => records.toSorted((a, b) => b.required - a.required)

/** The records with their state, first the required and then the advised ones, and the zone lines to copy. */
export function recordsText({ advised, domain, records }: DomainRecords): string {
  const [needed, others] = [records.filter(({ required }) => required), records.filter(({ required }) => !required)]
  const row = ({ name, record_type, value }: DnsRecord | AdvisedRecord, state: string): string[] => [
    state,
    record_type,
    name,
    value.length > 60 ? `${value.slice(0, 57)}…` : value,
  ]
  const shown = (rows: string[][]): string => table(['STATE', 'RECORD', 'NAME', 'VALUE'], rows)
  const required = shown(needed.map((record) => row(record, stateOf(record, domain))))
  const rest = shown([
    ...others.map((record) => row(record, stateOf(record, domain))),
    ...advised.map((record) => row(record, adviceOf(record))),
  ])
  return `Required: the domain sends when all of these are in DNS.

${required}

Advised:

${rest}

As lines of a zone file:

; required
${zoneFile(needed)}
; advised
${zoneText({ domain, records: others, advised })}
`
}

/**
 * All records in full, as the forms of DNS providers ask for them: those without which the domain does not send after
 * `own`, the rows of the server itself.
 */
export function recordsToCopy({ advised, records }: DomainRecords, own: readonly (readonly string[])[]): string {
  const row = ({ name, value, ...record }: DnsRecord): string[] => [typeOf(record), name, value]
  const isNeeded = ({ required }: DnsRecord): boolean => required === 1
  const shown = (rows: readonly (readonly string[])[]): string =>
    table(['TYPE', 'NAME', 'VALUE'], rows).replaceAll(/^/gm, '   ')
  const others = [
    ...records.filter((record) => !isNeeded(record)).map(row),
    ...advised.filter(({ answered }) => answered).map(({ name, type, value }) => [type, name, value]),
  ]
  return `${shown([...own, ...records.filter(isNeeded).map(row)])}

   Advised:

${shown(others)}`
}

/** The state of a record, from the last answers of DNS. */
function stateOf(record: DnsRecord, domain: Domain): string {
  if (!isAnswered(record, domain))
    return domain.checked_at === null || record.created_at > domain.checked_at ? 'not asked' : 'no answer'
  if (record.verified === 1) return 'ok'
  return record.observed !== null ? 'to change' : record.required === 1 ? 'missing' : 'advised'
}

function adviceOf({ answered, observed, value }: AdvisedRecord): string {
  if (!answered) return 'no answer'
  return observed === null ? 'advised' : observed === value ? 'ok' : 'to change'
}

/**
 * All records as zone lines, without the advised ones for which DNS did not answer: a second SPF record would make both
 * invalid.
 */
export const zoneText = ({ advised, records }: DomainRecords): string =>
  [zoneFile(inOrder(records)), ...advised.filter(({ answered }) => answered).map(zoneLine)].join('\n')

/** A sentence when DNS did not answer for some records at the last check. */
export function unanswered({ advised, domain, records }: DomainRecords): string[] {
  if (domain.checked_at === null) return []
  const silent = [
    ...records.filter((record) => stateOf(record, domain) === 'no answer'),
    ...advised.filter(({ answered }) => !answered),
  ].length
  return silent === 0
    ? []
    : [
        `DNS could not be asked about ${silent} of ${records.length + advised.length} records (no answer, or an error of its servers): nothing is known of them, and nothing was changed for it. "postrider doctor" looks at this server's DNS.`,
      ]
}

/** Sentences about published records that name another host. */
export function elsewhere(records: readonly DnsRecord[]): string[] {
  return records.flatMap(({ name, observed, record_type, value, verified }) =>
    verified === 0 && observed !== null && isOfHost({ record_type })
      ? `The ${record_type === 'SPF' ? 'SPF' : 'MX'} record at ${name} names another host: it says "${observed.replaceAll('\n', '; ')}" and should say "${value}".`
      : [],
  )
}
