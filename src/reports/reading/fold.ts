// Reduces a report to its largest sources (DMARC) or policies (TLS), and the sum of the rest (D234).
import type { DmarcRecord, DmarcSums, SourceSums, SummedReport, TlsPolicyReport, TlsReport } from './report.ts'

/** The most sources or policies that are kept of one report, and the most result types of a policy. */
export const MOST_KEPT = 200
export const MOST_RESULTS = 20

/** The most characters of a list of names. */
export const MAX_NAMES = 300

/** Policy overrides that mean that the message was forwarded. */
const FORWARDED = new Set(['forwarded', 'mailing_list', 'trusted_forwarder'])
const DISPOSITION = { none: 'none', quarantine: 'quarantine', reject: 'reject', pass: 'passed' } as const

/** The members of SourceSums that are numbers of messages. */
export const MESSAGE_SUMS = [
  'messages',
  'pass',
  'dkim_pass',
  'spf_pass',
  'none',
  'quarantine',
  'reject',
  'passed',
  'proven',
] as const

/** A copy that shares no memory: a piece of a large text would keep all of that text. */
const copyOf = (text: string): string => Buffer.from(text).toString()

/** Adds names to a list that separates them so that SQL can search it. */
export function listOf(names: readonly string[], list = ''): string {
  for (const name of names)
    if (!list.includes(` ${name} `) && list.length + name.length + 2 <= MAX_NAMES) list += ` ${copyOf(name)} `
  return list
}

const noSums = (address: string, addresses: number): SourceSums => ({
  address,
  addresses,
  messages: 0,
  pass: 0,
  dkim_pass: 0,
  spf_pass: 0,
  none: 0,
  quarantine: 0,
  reject: 0,
  passed: 0,
  proven: 0,
  forwarded: 0,
  both: 0,
  dkim_domains: '',
  spf_domains: '',
})

/** The sum of several sources as one row of this address. */
export function sumOf(sources: readonly SourceSums[], address: string): SourceSums {
  const sum = noSums(address, 0)
  for (const source of sources) {
    for (const name of ['addresses', ...MESSAGE_SUMS] as const) sum[name] += source[name]
    sum.forwarded = Math.max(sum.forwarded, source.forwarded)
    sum.both = Math.max(sum.both, source.both)
  }
  return sum
}

/** The records of one DMARC report, summed by source. */
export class FoldedRecords {
  readonly #sources = new Map<string, SourceSums>()
  readonly #dispositions: DmarcSums['dispositions'] = {}
  #records = 0

  add({ address, count, disposition, dkim, dkimDomains, reasons, spf, spfDomains }: DmarcRecord): void {
    const [byDkim, bySpf] = [dkim === 'pass', spf === 'pass']
    this.#records++
    this.#dispositions[disposition] = (this.#dispositions[disposition] ?? 0) + count
    const sums = this.#sources.get(address) ?? noSums(copyOf(address), 1)
    this.#sources.set(sums.address, sums)
    if (count === 0) return
    sums.messages += count
    sums[DISPOSITION[disposition]] += count
    if (byDkim || bySpf) sums.pass += count
    if (byDkim) sums.dkim_pass += count
    if (bySpf) sums.spf_pass += count
    if (byDkim && bySpf) sums.both = 1
    if (dkimDomains.length + spfDomains.length > 0) sums.proven += count
    if (reasons.some(({ type }) => FORWARDED.has(type))) sums.forwarded = 1
    sums.dkim_domains = listOf(dkimDomains, sums.dkim_domains)
    sums.spf_domains = listOf(spfDomains, sums.spf_domains)
  }

  sums(): DmarcSums {
    const { dkim_pass: dkimPass, messages, pass, spf_pass: spfPass } = sumOf([...this.#sources.values()], '')
    const [records, dispositions] = [this.#records, this.#dispositions]
    return { records, messages, pass, dkimPass, spfPass, dispositions, sources: this.#sources.size }
  }

  /**
   * The sources with most messages, and the sum of the others. Half of the rows are first for those with most passing
   * messages, so that a flood of forged messages does not displace the domain's own servers.
   */
  sources(): SourceSums[] {
    const all = [...this.#sources.values()].filter(({ messages }) => messages > 0)
    const passing = all.filter(({ pass }) => pass > 0).sort((one, other) => other.pass - one.pass)
    const ranked = new Set([
      ...passing.slice(0, MOST_KEPT / 2),
      ...all.sort((one, other) => other.messages - one.messages),
    ])
    const [kept, rest] = [[...ranked].slice(0, MOST_KEPT), [...ranked].slice(MOST_KEPT)]
    return rest.length === 0 ? kept : [...kept, sumOf(rest, '')]
  }
}

const sessionsOf = ({ failure, success }: TlsPolicyReport): number => failure + success

/** A TLS report with the policies that have the most sessions. The others are one policy per type without a domain. */
export function foldedTls(report: TlsReport): SummedReport {
  const policies = report.policies.map(({ results, ...policy }) => ({
    ...policy,
    results: results.toSorted((one, other) => other.sessions - one.sessions).slice(0, MOST_RESULTS),
  }))
  const sum = (of: 'success' | 'failure', some = policies): number => some.reduce((all, each) => all + each[of], 0)
  const sums = { policies: policies.length, success: sum('success'), failure: sum('failure') }
  if (policies.length <= MOST_KEPT) return { ...report, policies, sums }
  const ranked = policies.toSorted((one, other) => sessionsOf(other) - sessionsOf(one))
  const rest = Map.groupBy(ranked.splice(MOST_KEPT), ({ type }) => type)
  const others = [...rest].map(([type, some]) => ({
    type,
    domain: '',
    success: sum('success', some),
    failure: sum('failure', some),
    results: [],
  }))
  return { ...report, policies: [...ranked, ...others], sums }
}
