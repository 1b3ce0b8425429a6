// What authenticated DMARC reports say of a domain, by day, source, header From, results and disposition (DV55). A day
// has a bounded number of rows. Of strangers, what goes beyond is summed in rows without an address; addresses that are
// known have room beyond that, and then rows of their network, so that no flood hides them.
import type { Domain } from '../domains/find.ts'
import type { Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { listOf, MAX_NAMES } from './reading/fold.ts'
import { MOST_COUNT } from './reading/values.ts'

/** The most rows of a domain and day, and how many more there may be of addresses that are known. */
const MOST_ROWS = 5000
const MOST_KNOWN = 1000

/** The names of a list in a row. */
export const namesOf = (list: string): string[] => list.split(' ').filter((name) => name !== '')

const KEYS = ['address', 'header_from', 'dkim', 'spf', 'disposition', 'forwarded']
// A row counts no more than one record may, so that the sum of a domain's rows is never larger than a number can hold,
// however many reports say the most.
const most = (sum: string): string => `min(${sum}, ${MOST_COUNT})`
const valueOf = (name: string): string => `e.value ->> ${KEYS.indexOf(name)}`
const MESSAGES = `e.value ->> ${KEYS.length}`
const KNOWN = `exists (select 1 from dmarc_figures f where f.domain_key = ? and f.day = ? and ${KEYS.map((name) => `f.${name} = ${valueOf(name)}`).join(' and ')})`
const added = (list: string): string =>
  `${list} = case when instr(${list}, excluded.${list}) > 0 or length(${list}) + length(excluded.${list}) > ${MAX_NAMES}
    then ${list} else ${list} || excluded.${list} end`
const ADD = `insert into dmarc_figures (user_key, domain_key, day, reporters, ${KEYS.join(', ')}, messages, evidence, dkim_domains, spf_domains, addresses)
  select ?, ?, ?, ?, ${KEYS.map(valueOf).join(', ')}, ${most(MESSAGES)}, ${most(MESSAGES)} * ?, e.value ->> 7, e.value ->> 8, coalesce(e.value ->> 9, 0)
  from json_each(?) e where true
  on conflict do update set messages = ${most('messages + excluded.messages')}, evidence = evidence + excluded.evidence,
    addresses = addresses + excluded.addresses, ${['reporters', 'dkim_domains', 'spf_domains'].map(added).join(', ')}`

/** A row as FoldedRecords makes it; a sum of several has the number of their addresses. */
type FigureRow = [
  address: string,
  headerFrom: string,
  dkim: number,
  spf: number,
  disposition: string,
  forwarded: number,
  messages: number,
  dkimDomains: string,
  spfDomains: string,
  addresses?: number,
]

/** What a report says of a day, as rows in JSON; `share`: how much of each count is evidence. */
export interface RowsSaid {
  day: number
  reporter: string
  rows: string
  share: number
}

/**
 * Adds rows of a report, which FoldedRecords made, as JSON. While there is room they stay one text for SQLite, so that
 * many rows cost few statements. `knownAs` names an address that is known, by its network.
 */
export function addDmarcRows(
  tx: Tx,
  { key: domainKey, user_key }: Pick<Domain, 'key' | 'user_key'>,
  { day, reporter, rows, share }: RowsSaid,
  knownAs: () => (address: string) => string | undefined,
): void {
  const { count, present } = tx.one(
    raw<{ count: number; present: number }>(
      `select json_array_length(?) as count, count(*) as present from dmarc_figures where domain_key = ? and day = ?`,
      [rows, domainKey, day],
    ),
  )
  const add = (some: string): void => void tx.run(raw(ADD, [user_key, domainKey, day, listOf([reporter]), share, some]))
  if (present + count <= MOST_ROWS) return add(rows)
  const there = new Set(
    tx
      .all(raw<{ at: number }>(`select e.key as at from json_each(?) e where ${KNOWN}`, [rows, domainKey, day]))
      .map(({ at }) => at),
  )
  add(JSON.stringify(withinRoom(JSON.parse(rows) as FigureRow[], there, present, knownAs())))
}

/** The rows that have room as they are, and sums of the others. */
function withinRoom(
  rows: readonly FigureRow[],
  there: ReadonlySet<number>,
  present: number,
  knownAs: (address: string) => string | undefined,
): FigureRow[] {
  const kept: FigureRow[] = []
  const sums = new Map<string, FigureRow>()
  const counted = new Set<string>()
  let all = present
  for (const [at, row] of rows.entries()) {
    const [address, , dkim, spf, disposition, forwarded, messages] = row
    const network = knownAs(address)
    if (there.has(at) || all < MOST_ROWS + (network === undefined ? 0 : MOST_KNOWN)) {
      if (!there.has(at)) all++
      kept.push(row)
      continue
    }
    const [of, isNew] = [network ?? '', counted.has(address) ? 0 : 1]
    counted.add(address)
    const key = JSON.stringify([of, dkim, spf, disposition, forwarded])
    const sum = sums.get(key)
    if (sum) {
      sum[6] += messages
      sum[9] = (sum[9] ?? 0) + isNew
    } else sums.set(key, [of, '', dkim, spf, disposition, forwarded, messages, '', '', isNew])
  }
  return [...kept, ...sums.values()]
}
