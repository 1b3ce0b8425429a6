// The output of the commands for domains: a domain, its records with their state, and the lines of a zone file.
import { iso } from '../base/clock.ts'
import type { AdvisedRecord, AdvisedState } from './advised.ts'
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

/** A record as the forms of DNS providers ask for it, its value whole. */
const rowOf = (record: DnsRecord | AdvisedRecord): string[] => [
  'which' in record ? `${record.record_type} (${record.which})` : record.record_type,
  'type' in record ? record.type : typeOf(record),
  record.name,
  record.value,
]

const COLUMNS = ['RECORD', 'TYPE', 'NAME', 'VALUE']

/** What is advised, without those records that depend on an answer of DNS which did not come. */
const known = (advised: readonly AdvisedRecord[]): AdvisedRecord[] => advised.filter(({ answered }) => answered)

/** Says which records are left out where they are to be copied. */
function leftOut(advised: readonly AdvisedRecord[]): string {
  const names = [...new Set(advised.filter(({ answered }) => !answered).map(({ record_type }) => record_type))]
  return names.length === 0
    ? ''
    : `\nLeft out, because DNS did not answer whether there is one already, and a second one would make both invalid: ${names.join(', ')}.\n`
}

/** The records with their state, first the required and then the advised ones, and the lines of a zone file. */
export function recordsText({ advised, domain, records }: DomainRecords): string {
  const [needed, others] = [records.filter(({ required }) => required), records.filter(({ required }) => !required)]
  const shown = (rows: string[][]): string => table(['STATE', ...COLUMNS], rows)
  const required = shown(needed.map((record) => [stateOf(record, domain), ...rowOf(record)]))
  const rest = shown([
    ...others.map((record) => [stateOf(record, domain), ...rowOf(record)]),
    ...advised.map((record) => [record.state, ...rowOf(record)]),
  ])
  return `Required: the domain sends when all of these are in DNS. Each value is one line of a provider's form.

${required}

Advised:

${rest}

As lines of a zone file:

; required
${zoneFile(needed)}
; advised
${zoneText({ domain, records: others, advised })}
${leftOut(advised)}`
}

/**
 * All records in full, as the forms of DNS providers ask for them: those without which the domain does not send after
 * `own`, the rows of the server itself.
 */
export function recordsToCopy({ advised, records }: DomainRecords, own: readonly (readonly string[])[]): string {
  const isNeeded = ({ required }: DnsRecord): boolean => required === 1
  const shown = (rows: readonly (readonly string[])[]): string => table(COLUMNS, rows).replaceAll(/^/gm, '   ')
  const others = [...records.filter((record) => !isNeeded(record)), ...known(advised)]
  return `${shown([...own, ...records.filter(isNeeded).map(rowOf)])}

   Advised:

${shown(others.map(rowOf))}
${leftOut(advised).replaceAll(/^(?=.)/gm, '   ')}`.trimEnd()
}

/** The state of a record, from the last answers of DNS. */
function stateOf(record: DnsRecord, domain: Domain): AdvisedState {
  if (!isAnswered(record, domain))
    return domain.checked_at === null || record.created_at > domain.checked_at ? 'not asked' : 'no answer'
  if (record.verified === 1) return 'ok'
  return record.observed !== null ? 'to change' : 'missing'
}

/**
 * All records as zone lines, without the advised ones for which DNS did not answer: a second SPF record would make both
 * invalid.
 */
export const zoneText = ({ advised, records }: DomainRecords): string =>
  [zoneFile(inOrder(records)), ...known(advised).map(zoneLine)].join('\n')

/** A sentence when DNS did not answer for some records at the last check. */
export function unanswered({ advised, domain, records }: DomainRecords): string[] {
  if (domain.checked_at === null) return []
  const silent = [
    ...records.filter((record) => stateOf(record, domain) === 'no answer'),
    ...advised.filter(({ state }) => state === 'no answer'),
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
