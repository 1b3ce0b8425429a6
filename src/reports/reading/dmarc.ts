// Reads a DMARC report from the elements of `feedback`, in the forms of RFC 9990 and RFC 7489. Elements are recognised
// by local name and path. Unknown ones are skipped, and the first of a repeated one counts.
import { textOfXml } from './encoding.ts'
import { readFeedback } from './feedback-element.ts'
import {
  LIMITS,
  POLICY_TAGS,
  UnreadableReport,
  type DmarcRecord,
  type DmarcReport,
  type OverrideReason,
  type PassOrFail,
  type ReadingTimes,
  type ReportedDisposition,
  type ReportedPolicy,
} from './report.ts'
import { addressOf, countOf, demandPeriod, domainOf, lineOf, secondsOf } from './values.ts'

const NAMESPACE = 'urn:ietf:params:xml:ns:dmarc-2.0'
const DISPOSITIONS = ['none', 'quarantine', 'reject', 'pass'] as const satisfies readonly ReportedDisposition[]

const PUBLISHED = 'policy_published'
const METADATA = 'report_metadata'
const EVALUATED = 'record/row/policy_evaluated'
const REASON = `${EVALUATED}/reason`
const DKIM = 'record/auth_results/dkim'
const SPF = 'record/auth_results/spf'

/** Elements that can be repeated: values in them belong to the open one. */
const ITEMS = new Set([REASON, DKIM, SPF])
const LEAVES = new Set([
  ...['org_name', 'email', 'report_id', 'generator', 'date_range/begin', 'date_range/end'].map(
    (name) => `${METADATA}/${name}`,
  ),
  ...['domain', ...POLICY_TAGS].map((name) => `${PUBLISHED}/${name}`),
  'record/row/source_ip',
  'record/row/count',
  ...['disposition', 'dkim', 'spf'].map((name) => `${EVALUATED}/${name}`),
  'record/identifiers/header_from',
  ...['type', 'comment'].map((name) => `${REASON}/${name}`),
  ...[DKIM, SPF].flatMap((path) => ['domain', 'result'].map((name) => `${path}/${name}`)),
])
/** The elements around these. */
const CONTAINERS = new Set(
  [...LEAVES].flatMap((path) => path.split('/').map((_, at, all) => all.slice(0, at).join('/'))),
)
/** Elements that only RFC 9990 has. */
const OF_RFC9990 = [
  `${METADATA}/generator`,
  ...['np', 'testing', 'discovery_method'].map((name) => `${PUBLISHED}/${name}`),
]
const NO_VALUES: ReadonlyMap<string, string> = new Map()

/** The values of one scope by the paths of their elements: those of the report, of a record, or of an item. */
type ElementValues = Map<string, string>

interface RecordInHand {
  values: ElementValues
  dkimDomains: Set<string>
  spfDomains: Set<string>
  reasons: OverrideReason[]
  results: number
}

const emptyRecord = (): RecordInHand => ({
  values: new Map(),
  dkimDomains: new Set(),
  spfDomains: new Set(),
  reasons: [],
  results: 0,
})

/** Receives the records of a report, one by one. A report that is rejected in the end can have passed some, too. */
export type TakeRecord = (record: DmarcRecord) => void

class DmarcElements {
  readonly head: ElementValues = new Map()
  skipped = 0
  /** A value is in capitals. */
  capitals = false
  /** The open record, or the last one. */
  #record = emptyRecord()
  #item: ElementValues | undefined
  /** The path of each open element, outermost first, or undefined if it is skipped. */
  readonly #paths: (string | undefined)[] = []
  #records = 0
  readonly #take: TakeRecord

  constructor(take: TakeRecord) {
    this.#take = take
  }

  opened(name: string): void {
    const around = this.#paths.length === 0 ? '' : this.#paths.at(-1)
    const path = around === undefined ? undefined : around === '' ? name : `${around}/${name}`
    this.#paths.push(path !== undefined && this.#begins(path) ? path : undefined)
  }

  said(text: string): void {
    const path = this.#paths.at(-1)
    if (path === undefined || !LEAVES.has(path)) return
    const scope = this.#scopeOf(path)
    const whole = (scope.get(path) ?? '') + text
    if (whole.length > LIMITS.text) throw new UnreadableReport('too_large')
    scope.set(path, whole)
  }

  closed(): void {
    const path = this.#paths.pop()
    if (path === 'record') this.#endRecord()
    else if (path !== undefined && ITEMS.has(path)) this.#endItem(path)
  }

  /** Whether an element is one of those that count. */
  #begins(path: string): boolean {
    if (path === 'record') {
      if (this.#records + this.skipped === LIMITS.records) throw new UnreadableReport('too_large')
      this.#record = emptyRecord()
      return true
    }
    if (ITEMS.has(path)) {
      const { reasons, results } = this.#record
      if (path === REASON ? reasons.length === LIMITS.reasons : results === LIMITS.results) return false
      if (path !== REASON) this.#record.results++
      this.#item = new Map()
      return true
    }
    if (!LEAVES.has(path) && !CONTAINERS.has(path)) return false
    const scope = this.#scopeOf(path)
    if (scope.has(path)) return false
    scope.set(path, '')
    return true
  }

  #scopeOf(path: string): ElementValues {
    return this.#item ?? (path.startsWith('record/') ? this.#record.values : this.head)
  }

  #endItem(path: string): void {
    const record = this.#record
    const values = this.#item ?? NO_VALUES
    this.#item = undefined
    const valueOf = (name: string): string => values.get(`${path}/${name}`) ?? ''
    if (path === REASON) {
      record.reasons.push({ type: lineOf(valueOf('type')).toLowerCase(), comment: lineOf(valueOf('comment')) })
      return
    }
    const domain = domainOf(valueOf('domain'))
    if (this.#lower(valueOf('result')) !== 'pass' || domain === '') return
    const domains = path === DKIM ? record.dkimDomains : record.spfDomains
    domains.add(domain)
  }

  #endRecord(): void {
    const { dkimDomains, reasons, spfDomains, values } = this.#record
    const valueOf = (path: string): string => values.get(`record/${path}`)?.trim() ?? ''
    const address = addressOf(valueOf('row/source_ip'))
    const count = countOf(valueOf('row/count'))
    if (address === undefined || count === undefined) {
      this.skipped++
      return
    }
    const verdictOf = (name: string): PassOrFail =>
      this.#lower(valueOf(`row/policy_evaluated/${name}`)) === 'pass' ? 'pass' : 'fail'
    const disposition = this.#lower(valueOf('row/policy_evaluated/disposition'))
    this.#records++
    this.#take({
      address,
      count,
      disposition: DISPOSITIONS.find((each) => each === disposition) ?? 'none',
      dkim: verdictOf('dkim'),
      spf: verdictOf('spf'),
      headerFrom: domainOf(valueOf('identifiers/header_from')),
      dkimDomains: [...dkimDomains],
      spfDomains: [...spfDomains],
      reasons,
    })
  }

  /** The tags of the policy with a value. */
  policy(): ReportedPolicy {
    const tags = POLICY_TAGS.map((tag) => [tag, this.#lower(this.head.get(`${PUBLISHED}/${tag}`) ?? '')] as const)
    return Object.fromEntries(tags.filter(([, value]) => value !== ''))
  }

  /** A value of a fixed set, in lower case. */
  #lower(text: string): string {
    const value = lineOf(text)
    const lower = value.toLowerCase()
    this.capitals ||= lower !== value
    return lower
  }
}

/** Reads a DMARC report. Throws UnreadableReport. */
export function readDmarc(bytes: Buffer, times: ReadingTimes, take: TakeRecord): DmarcReport {
  const elements = new DmarcElements(take)
  const { pieces, replaced } = textOfXml(bytes)
  const namespace = readFeedback(pieces, elements)
  const valueOf = (path: string): string => lineOf(elements.head.get(path) ?? '')
  const domain = domainOf(valueOf(`${PUBLISHED}/domain`))
  const reportId = valueOf(`${METADATA}/report_id`)
  if (domain === '') throw new UnreadableReport('no_domain')
  if (reportId === '') throw new UnreadableReport('no_id')
  const begin = secondsOf(valueOf(`${METADATA}/date_range/begin`))
  const end = secondsOf(valueOf(`${METADATA}/date_range/end`))
  const period = demandPeriod({ begin, end }, times)
  const isNew = namespace === NAMESPACE || OF_RFC9990.some((path) => elements.head.has(path))
  const policy = elements.policy()
  return {
    kind: 'dmarc',
    form: isNew ? 'rfc9990' : 'rfc7489',
    org: valueOf(`${METADATA}/org_name`),
    email: valueOf(`${METADATA}/email`),
    reportId,
    domain,
    ...period,
    policy,
    skippedRecords: elements.skipped,
    faults: [...(replaced() ? ['encoding' as const] : []), ...(elements.capitals ? ['case' as const] : [])],
  }
}
