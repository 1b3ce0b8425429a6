// The output of the commands for domains: a domain, its records with their state, and the lines of a zone file.
import { iso } from '../base/clock.ts'
import type { Domain } from './find.ts'
import { isKnown, isOwn, isReverse, reverseText } from './host-records.ts'
import { conflictOf, isAnswered, isOfHost, isToPublish, type DnsRecord } from './records.ts'
import { typeOf, zoneFile, zoneLine } from './zone-lines.ts'
import { counted } from '../base/text.ts'
import { table } from '../views/command/terminal.ts'
import type { AdvisedRecord, AdvisedState } from './advised-record.ts'

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

const shownRecord = (record: DnsRecord, domain: Domain) => ({
  record_type: record.record_type,
  name: record.name,
  value: record.value,
  ttl: record.ttl,
  required: record.required === 1,
  verified: record.verified === 1,
  missing_address: record.missing_address === 1,
  observed: record.observed,
  /** Whether DNS answered for it at the last check of the domain. */
  answered: isAnswered(record, domain),
})

/** All records of a domain for `--json`, required ones first. */
export const shownRecords = ({ advised, domain, records }: DomainRecords) => [
  ...inOrder(records).map((record) => shownRecord(record, domain)),
  ...advised.map((each) => ({ ...each, required: false, verified: false })),
]

export interface DomainRecords {
  domain: Domain
  records: readonly DnsRecord[]
  advised: readonly AdvisedRecord[]
  /** Another domain of this server whose DMARC record is the same one: its lines have it. */
  dmarcOf?: string | undefined
}

const inOrder = (records: readonly DnsRecord[]): DnsRecord[] => records.toSorted((a, b) => b.required - a.required)

/** A record in the fields of DNS providers, with its full value. */
const rowOf = (record: DnsRecord | AdvisedRecord): string[] => [
  'which' in record ? `${record.record_type} (${record.which})` : record.record_type,
  'type' in record ? record.type : typeOf(record),
  record.name,
  record.value,
]

const COLUMNS = ['RECORD', 'TYPE', 'NAME', 'VALUE']

/** The advised records, except those that depend on a failed lookup. */
const known = (advised: readonly AdvisedRecord[]): AdvisedRecord[] => advised.filter(({ answered }) => answered)

/** Lists the records that are omitted from the output because of a failed lookup. */
function leftOut(advised: readonly AdvisedRecord[]): string {
  const names = [...new Set(advised.filter(({ answered }) => !answered).map(({ record_type }) => record_type))]
  return names.length === 0
    ? ''
    : `\nNot shown, because DNS did not answer whether a record exists, and a second one would make both invalid: ${names.join(', ')}.\n`
}

/** The records with their state, first the required and then the advised ones, and the lines of a zone file. */
export function recordsText({ advised, dmarcOf, domain, records }: DomainRecords): string {
  const [needed, others] = [records.filter(({ required }) => required), records.filter(({ required }) => !required)]
  const shown = (rows: string[][]): string => table(['STATE', ...COLUMNS], rows)
  const required = shown(needed.map((record) => [wordsOf(stateOf(record, domain)), ...rowOf(record)]))
  const ofState = (record: AdvisedRecord): string[] => [wordsOf(record.state), ...rowOf(record)]
  const rest = shown([
    ...others.map((record) => [wordsOf(stateOf(record, domain)), ...rowOf(record)]),
    ...advised.filter((record) => !isOwn(record)).map(ofState),
  ])
  return `Required (the domain can send when DNS has all of these; enter each value on one line):

${required}

Server (shared by all domains):

${shown(advised.filter(isOwn).map(ofState))}

${reverseText(advised)}

Recommended:

${rest}

As a zone file, without records that DNS already has:

; required
${zoneText({ records: needed, advised: [] })}
; server
${zoneText({ records: [], advised: advised.filter(isOwn) })}
; recommended
${zoneText({ records: others, advised: advised.filter((record) => !isOwn(record)), dmarcOf })}
${dmarcOf === undefined ? '' : `\nThe DMARC record is shared with ${dmarcOf}; publish the one that "postrider domain records ${dmarcOf}" prints.\n`}${leftOut(advised)}`
}

/**
 * All records in full, in the fields of DNS providers: first the addresses of the server and the records that sending
 * requires.
 */
export function recordsToCopy({ advised, records }: DomainRecords): string {
  const isNeeded = ({ required }: DnsRecord): boolean => required === 1
  const shown = (rows: readonly (readonly string[])[]): string => table(COLUMNS, rows).replaceAll(/^/gm, '   ')
  const own = advised.filter((record) => isOwn(record) && !isReverse(record))
  const more = known(advised).filter((record) => !isOwn(record))
  const others = [...records.filter((record) => !isNeeded(record)), ...more]
  return `${shown([...own.map(rowOf), ...records.filter(isNeeded).map(rowOf)])}

   Recommended:

${shown(others.map(rowOf))}
${leftOut(advised).replaceAll(/^(?=.)/gm, '   ')}`.trimEnd()
}

/** A state as a table shows it: "no answer". */
const wordsOf = (state: string): string => state.replaceAll('_', ' ')

/** The state of a record, from the last answers of DNS. */
function stateOf(record: DnsRecord, domain: Domain): AdvisedState | 'no_address' {
  if (!isAnswered(record, domain))
    return domain.checked_at === null || record.created_at > domain.checked_at ? 'not_checked' : 'no_answer'
  if (record.verified === 1) return 'ok'
  if (record.missing_address === 1) return 'no_address'
  return record.observed !== null ? 'different' : 'missing'
}

/**
 * The records to publish or to change as zone lines, without PTR records, the advised ones for which DNS did not answer
 * and a DMARC record that another domain has: a second SPF or DMARC record would make both invalid.
 */
export const zoneText = ({ advised, dmarcOf, records }: Omit<DomainRecords, 'domain'>): string =>
  [
    ...inOrder(records)
      .filter((record) => isToPublish(record) && !(dmarcOf !== undefined && record.record_type === 'DMARC'))
      .map((record) => zoneFile([record])),
    ...known(advised)
      .filter((record) => record.state !== 'ok' && !isReverse(record) && isKnown(record))
      .map(zoneLine),
  ].join('\n')

/** A sentence when DNS did not answer for some records at the last check. */
export function unanswered({ advised, domain, records }: DomainRecords): string[] {
  if (domain.checked_at === null) return []
  const silent = [
    ...records.filter((record) => stateOf(record, domain) === 'no_answer'),
    ...advised.filter(({ state }) => state === 'no_answer'),
  ].length
  return silent === 0
    ? []
    : [
        `DNS did not answer for ${silent} of ${counted(records.length + advised.length, 'record')}, so their status is unknown and unchanged. Run "postrider doctor" to check this server's DNS.`,
      ]
}

/** Sentences about published records that name another host, or of which there are too many. */
export function elsewhere(records: readonly DnsRecord[]): string[] {
  return records.flatMap((record) => {
    const { missing_address, name, observed, record_type, value, verified } = record
    const conflict = conflictOf(record)
    if (conflict !== null) return conflict
    if (missing_address === 1)
      return `The ${record_type === 'SPF' ? 'SPF' : 'MX'} record at ${name} names this server, which has no address in DNS; publish its A or AAAA record.`
    return verified === 0 && observed !== null && isOfHost({ record_type })
      ? `The ${record_type === 'SPF' ? 'SPF' : 'MX'} record at ${name} names another host: change "${observed.replaceAll('\n', '; ')}" to "${value}".`
      : []
  })
}
