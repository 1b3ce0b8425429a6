// What authenticated DMARC reports say of a domain, by day, source, header From, results and disposition (DV55). A day
// has a bounded number of rows; what goes beyond is summed in rows without an address.
import type { Domain } from '../domains/find.ts'
import type { Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { DmarcRecord } from './reading/report.ts'
import { MOST_COUNT } from './reading/values.ts'

/** The most rows of a domain and day. */
const MOST_ROWS = 5000
/** The most characters of a list of names in a row. */
const MAX_NAMES = 300
/** The most characters of a domain name (RFC 1035 §2.3.4). */
const MAX_NAME = 253

/** Reasons of receivers that say that the mail came over somebody who passed it on. */
const FORWARDED = new Set(['forwarded', 'mailing_list', 'trusted_forwarder'])

export type FiguresRow = readonly [
  address: string,
  headerFrom: string,
  dkim: number,
  spf: number,
  disposition: string,
  forwarded: number,
  messages: number,
  dkimDomains: string,
  spfDomains: string,
]

/** Names as a list to which another can be added by SQL: each stands between two spaces. */
const listOf = (names: readonly string[]): string => {
  let list = ''
  for (const name of names)
    if (!list.includes(` ${name} `) && list.length + name.length + 2 <= MAX_NAMES) list += ` ${name} `
  return list
}

/** The names of such a list. */
export const namesOf = (list: string): string[] => list.split(' ').filter((name) => name !== '')

const keyOf = (record: DmarcRecord, forwarded: number): string =>
  [record.address, record.headerFrom, record.dkim, record.spf, record.disposition, forwarded].join(' ')

/** Records with the same key, by the first of them. */
interface SummedRecord {
  record: DmarcRecord
  forwarded: number
  messages: number
}

/** The rows that some records make: those with the same key are one. */
export class DmarcRows {
  readonly #records: readonly DmarcRecord[]
  readonly #rows = new Map<string, SummedRecord>()

  constructor(records: readonly DmarcRecord[]) {
    this.#records = records
  }

  add(from: number, to: number): void {
    for (const record of this.#records.slice(from, to)) {
      if (record.count === 0) continue
      const forwarded = record.reasons.some(({ type }) => FORWARDED.has(type)) ? 1 : 0
      const key = keyOf(record, forwarded)
      const known = this.#rows.get(key)
      if (known) known.messages += record.count
      else this.#rows.set(key, { record, forwarded, messages: record.count })
    }
  }

  /** The rows of most messages first, so that a full day keeps these. */
  largestFirst(): SummedRecord[] {
    return [...this.#rows.values()].toSorted((one, other) => other.messages - one.messages)
  }
}

export const rowOf = ({ forwarded, messages, record }: SummedRecord): FiguresRow => [
  record.address,
  record.headerFrom.slice(0, MAX_NAME),
  record.dkim === 'pass' ? 1 : 0,
  record.spf === 'pass' ? 1 : 0,
  record.disposition,
  forwarded,
  messages,
  listOf(record.dkimDomains),
  listOf(record.spfDomains),
]

const COLUMNS = ['address', 'header_from', 'dkim', 'spf', 'disposition', 'forwarded', 'messages']
// A row counts no more than one record may, so that the sum of a domain's rows is never larger than a number can hold,
// however many reports say the most.
const most = (sum: string): string => `min(${sum}, ${MOST_COUNT})`
const VALUES = COLUMNS.map((name, at) => {
  const value = `e.value ->> ${at}`
  return `${name === 'messages' ? most(value) : value} as ${name}`
}).join(', ')
const KNOWN = `exists (select 1 from dmarc_figures f where f.domain_key = ? and f.day = ? and f.address = e.value ->> 0
  and f.header_from = e.value ->> 1 and f.dkim = e.value ->> 2 and f.spf = e.value ->> 3
  and f.disposition = e.value ->> 4 and f.forwarded = e.value ->> 5)`
const added = (list: string): string =>
  `${list} = case when instr(${list}, excluded.${list}) > 0 or length(${list}) + length(excluded.${list}) > ${MAX_NAMES}
    then ${list} else ${list} || excluded.${list} end`
const INSERT = `insert into dmarc_figures (user_key, domain_key, day, ${COLUMNS.join(', ')}, reporters, dkim_domains, spf_domains)`
const ADD = `on conflict do update set messages = ${most('messages + excluded.messages')}, ${['reporters', 'dkim_domains', 'spf_domains'].map(added).join(', ')}`

/** Adds rows of a report. They are one text for SQLite, so that many rows cost few statements. */
export function addDmarcRows(
  tx: Tx,
  { key: domainKey, user_key }: Pick<Domain, 'key' | 'user_key'>,
  { day, reporter, rows }: { day: number; reporter: string; rows: readonly FiguresRow[] },
): void {
  const add = (rows: readonly FiguresRow[]): void =>
    void tx.run(
      raw(
        `${INSERT} select ?, ?, ?, ${VALUES}, ?, e.value ->> 7, e.value ->> 8 from json_each(?) e where true ${ADD}`,
        [user_key, domainKey, day, listOf([reporter]), JSON.stringify(rows)],
      ),
    )
  const { present } = tx.one(
    raw<{ present: number }>('select count(*) as present from dmarc_figures where domain_key = ? and day = ?', [
      domainKey,
      day,
    ]),
  )
  if (present + rows.length <= MOST_ROWS) return add(rows)
  const known = new Set(
    tx
      .all(
        raw<{ at: number }>(`select e.key as at from json_each(?) e where ${KNOWN}`, [
          JSON.stringify(rows),
          domainKey,
          day,
        ]),
      )
      .map(({ at }) => at),
  )
  const fresh = rows.filter((_, at) => !known.has(at))
  const room = Math.max(0, MOST_ROWS - present)
  add([...rows.filter((_, at) => known.has(at)), ...fresh.slice(0, room)])
  add(othersOf(fresh.slice(room)))
}

/** Rows without an address, for each result and disposition. */
function othersOf(rows: readonly FiguresRow[]): FiguresRow[] {
  const sums = new Map<string, FiguresRow>()
  for (const [, , dkim, spf, disposition, forwarded, messages] of rows) {
    const key = [dkim, spf, disposition, forwarded].join(' ')
    const before = sums.get(key)?.[6] ?? 0
    sums.set(key, ['', '', dkim, spf, disposition, forwarded, before + messages, '', ''])
  }
  return [...sums.values()]
}
