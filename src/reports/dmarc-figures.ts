// The contents of authenticated DMARC reports about a domain, by day and source. A report has few rows
// (reading/fold.ts), and so has a day: unknown sources beyond its limit are summed in a row without an address. Known
// sources have their own limit, and then a row for their network, so that many unknown ones do not hide them (D234).
import type { Domain } from '../domains/find.ts'
import type { Reader, Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { knownSourcesOf, networksOf } from './known.ts'
import { ownAddressesHere, type OwnDeps } from './own.ts'
import { listOf, MAX_NAMES, MESSAGE_SUMS, sumOf } from './reading/fold.ts'
import type { SourceSums } from './reading/report.ts'
import { MOST_COUNT } from './reading/values.ts'

/** The most rows of unknown sources per domain and day, and the number of further rows for known ones. */
const MOST_ROWS = 300
const MOST_KNOWN = 300

const COUNTS = MESSAGE_SUMS.filter((name) => name !== 'proven')
const EVIDENCE = ['evidence', 'evidence_pass', 'evidence_proven']
const FLAGS = ['forwarded', 'both']
const NAMES = ['reporters', 'dkim_domains', 'spf_domains']
const COLUMNS = ['address', 'addresses', ...COUNTS, ...EVIDENCE, ...FLAGS, ...NAMES]

const ADD = `insert into dmarc_figures (user_key, domain_key, day, ${COLUMNS.join(', ')})
  select ?, ?, ?, ${COLUMNS.map((name) => `e.value ->> '${name}'`).join(', ')} from json_each(?) e where true
  on conflict do update set
    addresses = iif(address = '' or instr(address, '/') > 0, addresses + excluded.addresses, 1),
    ${[
      ...COUNTS.map((name) => `${name} = min(${name} + excluded.${name}, ${MOST_COUNT})`),
      ...EVIDENCE.map((name) => `${name} = ${name} + excluded.${name}`),
      ...FLAGS.map((name) => `${name} = max(${name}, excluded.${name})`),
      ...NAMES.map(
        (list) =>
          `${list} = iif(instr(${list}, excluded.${list}) > 0 or length(${list}) + length(excluded.${list}) > ${MAX_NAMES},
            ${list}, ${list} || excluded.${list})`,
      ),
    ].join(', ')}`

/** The figures of a report for a day. `share` is the part of each count that is evidence. */
export interface ReportedDay {
  day: number
  reporter: string
  sources: readonly SourceSums[]
  share: number
}

export function addDmarcFigures(
  tx: Tx,
  config: OwnDeps['config'],
  domain: Pick<Domain, 'key' | 'user_key'>,
  { day, reporter, share, sources }: ReportedDay,
): void {
  const rows = withinLimit(tx, config, { domainKey: domain.key, day }, sources).map((source) => {
    // A row counts at most as much as one record, so that the sum of all rows of a domain is a safe integer.
    const counts = Object.fromEntries(MESSAGE_SUMS.map((name) => [name, Math.min(source[name], MOST_COUNT)]))
    const { messages = 0, pass = 0, proven = 0 } = counts
    const evidence = { evidence: messages * share, evidence_pass: pass * share, evidence_proven: proven * share }
    return { ...source, ...counts, ...evidence, reporters: listOf([reporter]) }
  })
  tx.run(raw(ADD, [domain.user_key, domain.key, day, JSON.stringify(rows)]))
}

/** The sources within the limit of a day, and the sums of the others. */
function withinLimit(
  reader: Reader,
  config: OwnDeps['config'],
  { day, domainKey }: { domainKey: number; day: number },
  sources: readonly SourceSums[],
): readonly SourceSums[] {
  const { rows } = reader.one(
    raw<{ rows: number }>('select count(*) as rows from dmarc_figures where domain_key = ? and day = ?', [
      domainKey,
      day,
    ]),
  )
  if (rows + sources.length <= MOST_ROWS) return sources
  const present = new Set(
    reader
      .all(
        raw<{ address: string }>(
          `select address from dmarc_figures where domain_key = ? and day = ?
             and address in (select value ->> 'address' from json_each(?))`,
          [domainKey, day, JSON.stringify(sources)],
        ),
      )
      .map(({ address }) => address),
  )
  const { own } = ownAddressesHere({ config, store: reader })
  const networkOf = networksOf(knownSourcesOf(reader, domainKey))
  let all = rows
  const placed = Map.groupBy(sources, ({ address }) => {
    const known = own.has(address) ? address : networkOf(address)
    if (present.has(address)) return address
    if (all >= MOST_ROWS + (known === undefined ? 0 : MOST_KNOWN)) return known ?? ''
    all++
    return address
  })
  return [...placed].map(([address, some]) =>
    some.length === 1 && some[0]?.address === address ? some[0] : sumOf(some, address),
  )
}

/** The names in a list of a row. */
export const namesOf = (list: string): string[] => list.split(' ').filter((name) => name !== '')
