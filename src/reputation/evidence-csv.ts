// Reads the tables of other programs about this server's mail (DV81): Microsoft's SNDS, by address and day, and
// Google's Postmaster Tools, by domain and day. A file is bounded; columns that are not known are named and left out; a
// wrong line is named, counted and left out; a file of another program is refused with what was expected.
import { isIP, SocketAddress } from 'node:net'
import { DAY } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { storedName } from '../message/address.ts'
import type { RowOf } from '../schema/tables.ts'

export const EVIDENCE_KINDS = ['snds', 'gmail'] as const
export type EvidenceKind = (typeof EVIDENCE_KINDS)[number]

export const MOST_OCTETS = 10_000_000
const MOST_LINES = 50_000
const MOST_FIELDS = 64
const MOST_CHARACTERS = 1000
/** Wrong lines that are named; all are counted. */
const NAMED_LINES = 20
const MOST_COUNT = 2 ** 31 - 1
/** Days further back are not of this server. */
const OLDEST = Date.UTC(2000, 0, 1)

export type SndsRow = Omit<RowOf<'snds_rows'>, 'imported_at'>
export type GmailRow = Omit<RowOf<'gmail_rows'>, 'imported_at' | 'domain_key'> & { domain: string }

/** Why a line is left out. */
class WrongField extends Error {}

interface WrongLine {
  line: number
  why: string
}

export interface ReadEvidence<Row> {
  rows: Row[]
  skipped: number
  wrong: WrongLine[]
  /** Headings of columns that were left out. */
  unknown: string[]
}

type EvidenceFields = Record<string, string>
/** A column: the headings that it has in exports, without spaces and signs. */
type EvidenceColumns = Record<string, readonly string[]>

const SNDS: EvidenceColumns = {
  address: ['ipaddress', 'ip', 'address'],
  start: ['activitystart', 'activityperiodstart', 'activitystarttime', 'starttime'],
  day: ['activityend', 'activityperiodend', 'activityendtime', 'endtime', 'date', 'day'],
  rcpt: ['rcptcommands'],
  data: ['datacommands'],
  recipients: ['messagerecipients', 'recipients'],
  filter_result: ['filterresult', 'filterresults', 'filter'],
  complaint_rate: ['complaintrate', 'complaints'],
  trapStart: ['trapmessageperiodstart', 'trapperiodstart'],
  trapEnd: ['trapmessageperiodend', 'trapperiodend'],
  traps: ['traphits', 'trapmessagehits', 'traps'],
  helo: ['samplehelo'],
  from: ['samplemailfrom', 'samplemail'],
  comments: ['comments'],
}
/** Automated data access of SNDS sends these columns, in this order, without a heading. */
const SNDS_ORDER = Object.keys(SNDS)

const RATES = ['spam_rate', 'spf_rate', 'dkim_rate', 'dmarc_rate', 'tls_rate', 'error_rate'] as const
const GMAIL: EvidenceColumns = {
  domain: ['domain', 'domainname'],
  day: ['date', 'day'],
  spam_rate: ['spamrate', 'userreportedspamrate', 'userreportedspamratio'],
  spf_rate: ['spf', 'spfrate', 'spfsuccess', 'spfsuccessrate', 'spfsuccessratio'],
  dkim_rate: ['dkim', 'dkimrate', 'dkimsuccess', 'dkimsuccessrate', 'dkimsuccessratio'],
  dmarc_rate: ['dmarc', 'dmarcrate', 'dmarcsuccess', 'dmarcsuccessrate', 'dmarcsuccessratio'],
  tls_rate: ['tls', 'tlsrate', 'encryption', 'encryptionrate', 'tlsencryption', 'inboundencryptionratio'],
  error_rate: ['errorrate', 'deliveryerrors', 'deliveryerrorrate'],
  reputation: ['reputation', 'domainreputation'],
  compliance: ['compliance', 'compliancestatus'],
}

const EXPECTED: Record<EvidenceKind, string> = {
  snds: 'A file of SNDS ("View data", or "Automated data access", which has no headings) has the columns IP address, activity period, RCPT commands, DATA commands, message recipients, filter result, complaint rate, trap hits',
  gmail:
    'A file of Google’s Postmaster Tools has the columns date, and some of spam rate, SPF, DKIM, DMARC, TLS, delivery errors, domain reputation, compliance; and domain, unless --domain names it',
}

/** Reads a file of SNDS. Throws an OperatorError when it is none. */
export function readSnds(octets: Uint8Array, name: string, now: number): ReadEvidence<SndsRow> {
  const lines = linesOf(octets, name)
  const bare = isIP(lines[0]?.fields[0]?.trim() ?? '') !== 0
  if (bare && (lines[0]?.fields.length ?? 0) < SNDS_ORDER.indexOf('complaint_rate') + 1) refuseFile('snds', name, lines)
  const headings = bare ? Object.values(SNDS).flatMap(([heading]) => heading ?? []) : headingsOf(lines)
  return readLines({
    kind: 'snds',
    name,
    headings,
    columns: SNDS,
    needed: ['address', 'day', 'recipients', 'filter_result'],
    lines: bare ? lines : lines.slice(1),
    row: (fields): SndsRow => ({
      address: addressOf(fields['address']),
      day: dayOf(fields['day'], now),
      recipients: countOf(fields['recipients'], 'message recipients'),
      filter_result: filterOf(fields['filter_result']),
      complaint_rate: rateOf(fields['complaint_rate']?.replace(/^<\s*/, ''), 'complaint rate'),
      traps: isEmpty(fields['traps']) ? null : countOf(fields['traps'], 'trap hits'),
    }),
  })
}

/** Reads a file of Google's Postmaster Tools; `domain`: of all its lines. Throws an OperatorError when it is none. */
export function readGmail(
  octets: Uint8Array,
  name: string,
  { domain, now }: { domain?: string | undefined; now: number },
): ReadEvidence<GmailRow> {
  const lines = linesOf(octets, name)
  const headings = headingsOf(lines)
  const known = headings.flatMap((heading) => columnOf(GMAIL, heading) ?? [])
  if (known.length - Number(known.includes('domain')) - Number(known.includes('day')) < 1)
    refuseFile('gmail', name, lines)
  return readLines({
    kind: 'gmail',
    name,
    headings,
    columns: GMAIL,
    needed: domain === undefined ? ['domain', 'day'] : ['day'],
    lines: lines.slice(1),
    row(fields): GmailRow {
      const rates = Object.fromEntries(RATES.map((rate) => [rate, rateOf(fields[rate], rate.replace('_', ' '))]))
      const words = { reputation: wordOf(fields['reputation']), compliance: wordOf(fields['compliance']) }
      if (![...Object.values(rates), ...Object.values(words)].some((value) => value !== null))
        throw new WrongField('it holds no figure')
      return {
        domain: storedName((domain ?? fields['domain'] ?? '').trim()),
        day: dayOf(fields['day'], now),
        ...(rates as Record<(typeof RATES)[number], number | null>),
        ...words,
      }
    },
  })
}

interface EvidenceLine {
  number: number
  fields: string[]
}

interface EvidenceReading<Row> {
  kind: EvidenceKind
  name: string
  headings: readonly string[]
  columns: EvidenceColumns
  needed: readonly string[]
  lines: readonly EvidenceLine[]
  row: (fields: EvidenceFields) => Row
}

function readLines<Row>({
  columns,
  headings,
  kind,
  lines,
  name,
  needed,
  row,
}: EvidenceReading<Row>): ReadEvidence<Row> {
  const names = headings.map((heading) => columnOf(columns, heading))
  if (needed.some((column) => !names.includes(column))) refuseFile(kind, name, [{ number: 1, fields: [...headings] }])
  const read: ReadEvidence<Row> = { rows: [], skipped: 0, wrong: [], unknown: [] }
  read.unknown = headings.filter((heading, at) => names[at] === undefined && !isEmpty(heading)).map(shown)
  for (const { fields, number } of lines) {
    try {
      if (fields.length > headings.length) throw new WrongField('it has more fields than there are columns')
      // The first of two columns with one meaning counts.
      const given: EvidenceFields = Object.create(null) as EvidenceFields
      for (const [at, column] of names.entries()) if (column !== undefined) given[column] ??= fields[at] ?? ''
      read.rows.push(row(given))
    } catch (thrown) {
      if (!(thrown instanceof WrongField)) throw thrown
      read.skipped++
      if (read.wrong.length < NAMED_LINES) read.wrong.push({ line: number, why: thrown.message })
    }
  }
  return read
}

const headingsOf = (lines: readonly EvidenceLine[]): string[] => lines[0]?.fields ?? []
const plain = (heading: string): string => heading.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
const columnOf = (columns: EvidenceColumns, heading: string): string | undefined =>
  Object.entries(columns).find(([, headings]) => headings.includes(plain(heading)))?.[0]
/** A text of a file, for a message. */
const shown = (text: string): string => JSON.stringify(text.trim().slice(0, 40))
const isEmpty = (text: string | undefined): boolean => text === undefined || text.trim() === ''

function refuseFile(kind: EvidenceKind, name: string, lines: readonly EvidenceLine[]): never {
  const found = headingsOf(lines).slice(0, 8).map(shown).join(', ')
  throw new OperatorError(`${name} cannot be imported. ${EXPECTED[kind]}; it begins with ${found || 'nothing'}.`)
}

/** The lines with something in them. Throws an OperatorError when there are too many, or it is not text. */
function linesOf(octets: Uint8Array, name: string): EvidenceLine[] {
  if (octets.length > MOST_OCTETS) throw new OperatorError(`${name} is larger than 10 MB; export fewer days.`)
  const wide = octets[0] === 0xff && octets[1] === 0xfe
  const text = new TextDecoder(wide ? 'utf-16le' : 'utf-8').decode(octets)
  if (text.includes('\0')) throw new OperatorError(`${name} is not text; export the table as CSV.`)
  const lines: EvidenceLine[] = []
  for (const line of splitRecords(text, delimiterOf(text), name)) {
    if (line.fields.every(isEmpty)) continue
    if (lines.length > MOST_LINES) throw new OperatorError(`${name} has more than 50,000 lines; export fewer days.`)
    lines.push(line)
  }
  return lines
}

/** The delimiter that the first line has most of. */
function delimiterOf(text: string): string {
  const first = text.slice(0, MOST_FIELDS * MOST_CHARACTERS).split('\n', 1)[0] ?? ''
  return [',', ';', '\t'].reduce((best, each) => (first.split(each).length > first.split(best).length ? each : best))
}

/** The records of a CSV file (RFC 4180): a field in quotes may hold delimiters, line ends and doubled quotes. */
function* splitRecords(text: string, delimiter: string, name: string): Generator<EvidenceLine> {
  const UNQUOTED = new RegExp(`[^\\r\\n${delimiter}]*`, 'y')
  let number = 1
  let record: EvidenceLine = { number, fields: [] }
  for (let at = 0; ;) {
    const end = text[at] === '"' ? endOfQuotes(text, at) : at
    const quoted = end > at ? text.slice(at + 1, end - 1) : ''
    // What follows the closing quote belongs to nothing.
    UNQUOTED.lastIndex = end
    const [rest = ''] = UNQUOTED.exec(text) ?? []
    const field = end > at ? quoted.replaceAll('""', '"') : rest
    if (field.length > MOST_CHARACTERS || rest.length > MOST_CHARACTERS || record.fields.length >= MOST_FIELDS)
      throw new OperatorError(`${name}: line ${number} is too long to be one of a table; export it as CSV.`)
    record.fields.push(field)
    number += quoted.split('\n').length - 1
    at = end + rest.length
    if (text[at] === delimiter) {
      at++
      continue
    }
    yield record
    if (at >= text.length) return
    at += text.startsWith('\r\n', at) ? 2 : 1
    number++
    record = { number, fields: [] }
  }
}

/** The place after the quote that closes the one at `at`; the end of the text where none does. */
function endOfQuotes(text: string, at: number): number {
  for (let quote = at + 1; ; quote += 2) {
    quote = text.indexOf('"', quote)
    if (quote < 0) return text.length + 1
    if (text[quote + 1] !== '"') return quote + 1
  }
}

function addressOf(text = ''): string {
  const address = text.trim()
  const family = isIP(address)
  if (family === 0 || address.includes('%')) throw new WrongField(`${shown(text)} is not an IP address`)
  return new SocketAddress({ address, family: family === 6 ? 'ipv6' : 'ipv4' }).address
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']

/** Days since the epoch of "2026-01-31", "20260131", "1/31/2026 7:00 PM" or "Jan 31, 2026". */
function dayOf(text = '', now: number): number {
  const [, y1, m1, d1] = /^(\d{4})-?(\d{2})-?(\d{2})(?:[T ][\d:.]+Z?)?$/.exec(text.trim()) ?? []
  const [, m2, d2, y2] =
    /^(\d{1,2})\/(\d{1,2})\/(\d{4})(?: \d{1,2}:\d{2}(?::\d{2})?(?: ?[AP]M)?)?$/i.exec(text.trim()) ?? []
  const [, m3 = '', d3, y3] = /^([A-Z][a-z]{2})[a-z]{0,6} (\d{1,2}), (\d{4})$/.exec(text.trim()) ?? []
  const year = Number(y1 ?? y2 ?? y3)
  const month = m3 === '' ? Number(m1 ?? m2) : MONTHS.indexOf(m3.toLowerCase()) + 1
  const day = Number(d1 ?? d2 ?? d3)
  const at = Date.UTC(year, month - 1, day)
  const date = new Date(at)
  if (Number.isNaN(at) || date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day)
    throw new WrongField(`${shown(text)} is not a date such as 2026-01-31 or 1/31/2026`)
  if (at < OLDEST || at > now + 2 * DAY) throw new WrongField(`${shown(text)} is not a day of the past`)
  return at / DAY
}

function countOf(text = '', what: string): number {
  const value = text.trim()
  if (!/^\d{1,10}$/.test(value) || Number(value) > MOST_COUNT)
    throw new WrongField(`${what}: ${shown(text)} is not a whole number`)
  return Number(value)
}

/** A share from "0.3%" or "0.003", 0 to 1; null for nothing. */
function rateOf(text: string | undefined, what: string): number | null {
  if (text === undefined || isEmpty(text)) return null
  const [, number, percent] = /^(\d{1,3}(?:\.\d{1,12})?|\.\d{1,12})\s*(%?)$/.exec(text.trim()) ?? []
  const value = Number(number) / (percent === '%' ? 100 : 1)
  if (number === undefined || value > 1)
    throw new WrongField(`${what}: ${shown(text)} is not a share such as 0.3% or 0.003`)
  return value
}

const FILTERS = ['green', 'yellow', 'red'] as const

function filterOf(text = ''): SndsRow['filter_result'] {
  const found = FILTERS.find((each) => each === text.trim().toLowerCase())
  if (found === undefined) throw new WrongField(`filter result: ${shown(text)} is not green, yellow or red`)
  return found
}

function wordOf(text: string | undefined): string | null {
  if (text === undefined || isEmpty(text)) return null
  const word = text.trim().toLowerCase()
  if (!/^[a-z][a-z _-]{0,39}$/.test(word)) throw new WrongField(`${shown(text)} is not a word`)
  return word
}
