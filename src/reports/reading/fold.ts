// A report in sums and rows. The records of a DMARC report are summed as they are read, and none is kept: what they
// make are texts of JSON of their own. A piece of a large text would keep all of that text in memory.
import type { DmarcRecord, DmarcSums, TlsPolicyReport, TlsReport, TlsSums } from './report.ts'

/** The most rows of a piece, and the most characters of one of several rows. */
export const PIECE = { rows: 250, text: 256 * 1024 } as const

/** The most characters of a list of names in a row. */
export const MAX_NAMES = 300
/** The most characters of a domain name (RFC 1035 §2.3.4). */
const MAX_NAME = 253

/** Reasons of receivers that say that the mail came over somebody who passed it on. */
const FORWARDED = new Set(['forwarded', 'mailing_list', 'trusted_forwarder'])

/** Rows of a report, from row number `at` on until before `end`, as JSON. */
export interface ReportPiece {
  at: number
  end: number
  rows: string
}

/** Names as a list to which another can be added by SQL: each stands between two spaces. */
export const listOf = (names: readonly string[]): string => {
  let list = ''
  for (const name of names)
    if (!list.includes(` ${name} `) && list.length + name.length + 2 <= MAX_NAMES) list += ` ${name} `
  return list
}

/** The records of one DMARC report: those that agree in all but their count and names are one row. */
export class FoldedRecords {
  /** By the first six values of a row, as JSON; `names`: the last two, of the first record. */
  readonly #rows = new Map<string, { messages: number; names: string }>()
  readonly #sources = new Set<string>()
  readonly #sums = { records: 0, messages: 0, pass: 0, dkimPass: 0, spfPass: 0 }
  readonly #dispositions: DmarcSums['dispositions'] = {}

  add({ address, count, disposition, dkim, dkimDomains, headerFrom, reasons, spf, spfDomains }: DmarcRecord): void {
    const [byDkim, bySpf] = [dkim === 'pass', spf === 'pass']
    const sums = this.#sums
    sums.records++
    sums.messages += count
    if (byDkim) sums.dkimPass += count
    if (bySpf) sums.spfPass += count
    if (byDkim || bySpf) sums.pass += count
    this.#dispositions[disposition] = (this.#dispositions[disposition] ?? 0) + count
    this.#sources.add(JSON.stringify(address))
    if (count === 0) return
    const forwarded = reasons.some(({ type }) => FORWARDED.has(type))
    const from = headerFrom.slice(0, MAX_NAME)
    const key = JSON.stringify([address, from, Number(byDkim), Number(bySpf), disposition, Number(forwarded)])
    const known = this.#rows.get(key)
    if (known) known.messages += count
    else this.#rows.set(key, { messages: count, names: JSON.stringify([listOf(dkimDomains), listOf(spfDomains)]) })
  }

  sums(): DmarcSums {
    return { ...this.#sums, dispositions: this.#dispositions, sources: this.#sources.size }
  }

  /**
   * Each as JSON: [address, header From, dkim, spf, disposition, forwarded, messages, DKIM domains, SPF domains]. Those
   * of most messages come first, so that a full day keeps these.
   */
  *rows(): Iterable<string> {
    const rows = [...this.#rows].toSorted(([, one], [, other]) => other.messages - one.messages)
    for (const [key, { messages, names }] of rows) yield `${key.slice(0, -1)},${messages},${names.slice(1)}`
  }
}

export function tlsSums({ policies }: TlsReport): TlsSums {
  const sum = (of: 'success' | 'failure'): number => policies.reduce((all, each) => all + each[of], 0)
  // A longer text is not a domain, so none of ours.
  const named = policies.filter(({ domain }) => domain.length <= MAX_NAME)
  const about = new Map(named.map(({ domain, type }) => [`${type} ${domain}`, { domain, type }]))
  return { policies: policies.length, success: sum('success'), failure: sum('failure'), about: [...about.values()] }
}

export function* tlsRows(policies: readonly TlsPolicyReport[]): Iterable<string> {
  for (const each of policies) yield JSON.stringify(each)
}

/** The pieces of some rows, from a row on. */
export function* piecesOf(rows: Iterable<string>, from = 0): Iterable<ReportPiece> {
  let texts: string[] = []
  let [at, size, number] = [from, 0, 0]
  for (const row of rows) {
    if (number++ < from) continue
    if (texts.length > 0 && (texts.length === PIECE.rows || size + row.length > PIECE.text)) {
      yield { at, end: at + texts.length, rows: `[${texts.join(',')}]` }
      at += texts.length
      texts = []
      size = 0
    }
    texts.push(row)
    size += row.length
  }
  if (texts.length > 0) yield { at, end: at + texts.length, rows: `[${texts.join(',')}]` }
}
