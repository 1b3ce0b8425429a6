// What authenticated DMARC reports say of a domain, by day, source, header From, results and disposition (DV55). A day
// has a bounded number of rows; what goes beyond is summed in rows without an address.
import type { Domain } from '../domains/find.ts'
import type { Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { listOf, MAX_NAMES } from './reading/fold.ts'
import { MOST_COUNT } from './reading/values.ts'

/** The most rows of a domain and day. */
const MOST_ROWS = 5000

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
const INSERT = `insert into dmarc_figures (user_key, domain_key, day, reporters, ${KEYS.join(', ')}, messages, dkim_domains, spf_domains) select ?, ?, ?, ?,`
const ADD = `on conflict do update set messages = ${most('messages + excluded.messages')}, ${['reporters', 'dkim_domains', 'spf_domains'].map(added).join(', ')}`
const SOME = 'from json_each(?) e where (e.key in (select value from json_each(?)))'
/** Some rows, by their places. */
const ADD_SOME = `${INSERT} ${KEYS.map(valueOf).join(', ')}, ${most(MESSAGES)}, e.value ->> 7, e.value ->> 8 ${SOME} = ? ${ADD}`
/** Some rows without an address, summed for each result and disposition. */
const OTHERS = ['dkim', 'spf', 'disposition', 'forwarded'].map(valueOf).join(', ')
const ADD_OTHERS = `${INSERT} '', '', ${OTHERS}, ${most(`sum(${MESSAGES})`)}, '', '' ${SOME} = ? group by ${OTHERS} ${ADD}`

/**
 * Adds rows of a report, which FoldedRecords made, as JSON. They stay one text for SQLite, so that many rows cost few
 * statements, and no memory here.
 */
export function addDmarcRows(
  tx: Tx,
  { key: domainKey, user_key }: Pick<Domain, 'key' | 'user_key'>,
  { day, reporter, rows }: { day: number; reporter: string; rows: string },
): void {
  const { count, present } = tx.one(
    raw<{ count: number; present: number }>(
      `select json_array_length(?) as count, count(*) as present from dmarc_figures where domain_key = ? and day = ?`,
      [rows, domainKey, day],
    ),
  )
  const all = Array.from({ length: count }, (_, at) => at)
  const room = Math.max(0, MOST_ROWS - present)
  const known =
    count <= room
      ? new Set<number>()
      : new Set(
          tx
            .all(raw<{ at: number }>(`select e.key as at from json_each(?) e where ${KNOWN}`, [rows, domainKey, day]))
            .map(({ at }) => at),
        )
  const beyond = all.filter((at) => !known.has(at)).slice(room)
  const values = [user_key, domainKey, day, listOf([reporter]), rows, JSON.stringify(beyond)]
  tx.run(raw(ADD_SOME, [...values, 0]))
  if (beyond.length > 0) tx.run(raw(ADD_OTHERS, [...values, 1]))
}
