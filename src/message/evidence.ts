// Selects the header fields that SPF, DKIM, DMARC and ARC checks may see: those that a result can depend on, unfolded,
// within limits that no normal mail reaches. The time here is linear in the size of the header. The library's is not
// (docs/development/decisions).
//
// Relaxed canonicalisation (RFC 6376 §3.4.2) unfolds fields and reduces white space, so a field in that form keeps its
// signature. Only a signature with simple canonicalisation needs its fields as received. Those have separate limits.
import { MAX_FIELDS, MAX_HEADER } from './mime-tree.ts'

/** The most signatures that are verified, from the first on (RFC 6376 §6.1 leaves the number to the verifier). */
export const MAX_SIGNATURES = 10
/** The most ways of hashing a body for them: canonicalisation, algorithm, length. */
export const MAX_BODY_HASHES = 4
/** The most bytes of a signature or seal field. */
export const MAX_SIGNATURE = 16 * 1024
/** The most names that a signature may list. */
export const MAX_SIGNED = 300
/** RFC 8617 §4.2.1: at most 50 sets of three fields. */
export const MAX_ARC_FIELDS = 150
/** The most bytes of a From field, and the most From fields. */
export const MAX_AUTHOR = 64 * 1024
export const MAX_AUTHORS = 10
/** The most lines that a simple signature may cover, and the longest run of white space. */
export const MAX_SIMPLE_LINES = 500
export const MAX_SIMPLE_SPACE = 500

/** The kinds of evidence that were left out, each with the reason as text. */
export interface Beyond {
  header?: string
  signatures?: string
  chain?: string
  author?: string
  unjudged?: string
}

export interface Evidence {
  /** Fields with their line ends, without the empty line. */
  header: string
  beyond: Beyond
  /** Why the header has no single author domain, so that DMARC cannot be evaluated (RFC 9989 §5.3.1). */
  unusable: string | undefined
}

interface EvidenceRow {
  key: string
  lines: string[]
  bytes: number
}

const ARC = new Set(['arc-seal', 'arc-message-signature', 'arc-authentication-results'])
const SIGNATURES = new Set(['dkim-signature', 'arc-message-signature'])

/**
 * Selects the evidence. `header` is in latin1, up to the empty line. If it exceeds a limit, `beyond` names the limit.
 */
export function evidenceOf(header: string): Evidence {
  if (header.length > MAX_HEADER)
    return { header: '', beyond: { header: `header over ${MAX_HEADER / 1024} KB` }, unusable: undefined }
  const rows = rowsOf(header)
  if (rows.length > MAX_FIELDS)
    return { header: '', beyond: { header: `more than ${MAX_FIELDS} fields` }, unusable: undefined }
  const beyond: Beyond = {}
  const dropped = new Set([
    ...beyondSignatures(rows, beyond),
    ...beyondChain(rows, beyond),
    ...beyondAuthors(rows, beyond),
  ])
  const wanted = relevant(rows.filter((row) => !dropped.has(row)))
  const unusable = beyond.author === undefined ? unusableAuthor(rows) : undefined
  const simple = wanted.filter((row) => SIGNATURES.has(row.key) && isSimple(row))
  if (simple.length === 0) return { header: wanted.map(relaxed).join(''), beyond, unusable }
  if (isTame(wanted)) return { header: wanted.map(asItCame).join(''), beyond, unusable }
  beyond.signatures ??= 'simple signature over folds without end'
  const others = relevant(wanted.filter((row) => !simple.includes(row)))
  return { header: others.map(relaxed).join(''), beyond, unusable }
}

const FIELD = /^[\x21-\x39\x3b-\x7e]+[ \t\r]*:/
const NAME_ALONE = /^[\x21-\x39\x3b-\x7e]+[ \t\r]*$/

/** The fields as mailauth reads them: a line that begins no field belongs to the field before. */
function rowsOf(header: string): EvidenceRow[] {
  const lines = header.split(/\r?\n/)
  lines.splice(lines.findLastIndex((line) => !/^\r*$/.test(line)) + 1)
  /** The line after, when it does not begin a field. */
  let next: string | undefined
  const backwards = lines.toReversed().map((line) => {
    const begins = FIELD.test(line) || (next !== undefined && NAME_ALONE.test(line) && /^[ \t\r]*:/.test(next))
    next = begins ? undefined : line
    return begins
  })
  const starts = backwards.toReversed()
  const rows: EvidenceRow[] = []
  for (const [at, line] of lines.entries()) {
    const row = rows.at(-1)
    if (starts[at] || row === undefined) rows.push({ key: '', lines: [line], bytes: line.length + 2 })
    else {
      row.lines.push(line)
      row.bytes += line.length + 2
    }
  }
  for (const row of rows)
    row.key = (/^[^:]+/.exec(`${row.lines[0]}${row.lines[1] ?? ''}`)?.[0] ?? '').trim().toLowerCase()
  return rows
}

const unfolded = ({ lines }: EvidenceRow): string => lines.join('')

/** The field in relaxed form, except for its name. */
const relaxed = (row: EvidenceRow): string =>
  `${unfolded(row)
    .replace(/[ \t]+/g, ' ')
    .replace(/ $/, '')}\r\n`

const asItCame = ({ lines }: EvidenceRow): string => `${lines.join('\r\n')}\r\n`

/** Whether these fields are within the limits for use as received. */
function isTame(rows: readonly EvidenceRow[]): boolean {
  const count = rows.reduce((sum, { lines }) => sum + lines.length, 0)
  return count <= MAX_SIMPLE_LINES && !rows.some((row) => longestSpace(asItCame(row)) > MAX_SIMPLE_SPACE)
}

function longestSpace(text: string): number {
  let longest = 0
  for (const { 0: space } of text.matchAll(/\s+/g)) longest = Math.max(longest, space.length)
  return longest
}

/** A tag of a signature (RFC 6376 §3.2), without white space, or ''. */
function tagOf(row: EvidenceRow, wanted: string): string {
  for (const tag of unfolded(row)
    .slice(unfolded(row).indexOf(':') + 1)
    .split(';')) {
    const equals = tag.indexOf('=')
    if (equals >= 0 && tag.slice(0, equals).trim() === wanted) return tag.slice(equals + 1).replace(/\s+/g, '')
  }
  return ''
}

const isSimple = (row: EvidenceRow): boolean => !tagOf(row, 'c').toLowerCase().startsWith('relaxed')

const signedBy = (row: EvidenceRow): string[] =>
  tagOf(row, 'h')
    .split(':')
    .map((name) => name.toLowerCase())

/** The fields that a result can depend on. */
function relevant(rows: readonly EvidenceRow[]): EvidenceRow[] {
  const names = new Set(rows.flatMap((row) => (SIGNATURES.has(row.key) ? signedBy(row) : [])))
  return rows.filter(({ key }) => key === 'from' || key === 'dkim-signature' || ARC.has(key) || names.has(key))
}

function beyondSignatures(rows: readonly EvidenceRow[], beyond: Beyond): EvidenceRow[] {
  const hashes = new Set<string>()
  let count = 0
  return rows.filter((row) => {
    if (row.key !== 'dkim-signature') return false
    const reason = tooMuch(row) ?? (++count > MAX_SIGNATURES ? `more than ${MAX_SIGNATURES} signatures` : undefined)
    const hash =
      reason === undefined ? `${tagOf(row, 'c').split('/')[1] ?? ''} ${tagOf(row, 'a')} ${tagOf(row, 'l')}` : ''
    const over = reason === undefined && hashes.size >= MAX_BODY_HASHES && !hashes.has(hash)
    if (reason === undefined && !over) hashes.add(hash)
    if (reason !== undefined || over)
      beyond.signatures ??= reason ?? `more than ${MAX_BODY_HASHES} kinds of body hashes`
    return reason !== undefined || over
  })
}

function tooMuch(row: EvidenceRow): string | undefined {
  if (row.bytes > MAX_SIGNATURE) return `signature over ${MAX_SIGNATURE / 1024} KB`
  return signedBy(row).length > MAX_SIGNED ? `signature of more than ${MAX_SIGNED} fields` : undefined
}

function beyondChain(rows: readonly EvidenceRow[], beyond: Beyond): EvidenceRow[] {
  const chain = rows.filter(({ key }) => ARC.has(key))
  if (chain.length > MAX_ARC_FIELDS) beyond.chain = 'more than 50 sets'
  else if (chain.some((row) => tooMuch(row) !== undefined)) beyond.chain = `field over ${MAX_SIGNATURE / 1024} KB`
  return beyond.chain === undefined ? [] : chain
}

function beyondAuthors(rows: readonly EvidenceRow[], beyond: Beyond): EvidenceRow[] {
  const authors = rows.filter(({ key }) => key === 'from')
  if (authors.length <= MAX_AUTHORS && authors.every(({ bytes }) => bytes <= MAX_AUTHOR)) return []
  beyond.author = authors.length > MAX_AUTHORS ? `more than ${MAX_AUTHORS} From` : `From over ${MAX_AUTHOR / 1024} KB`
  return authors
}

/** Why the From fields name no single author domain, or undefined if they do. */
function unusableAuthor(rows: readonly EvidenceRow[]): string | undefined {
  const [author, second] = rows.filter(({ key }) => key === 'from')
  if (!author) return 'no From'
  if (second) return 'several From'
  const domains = new Set(authorDomains(author))
  if (domains.has('')) return 'From cannot be read'
  return domains.size === 1 ? undefined : domains.size === 0 ? 'From without an address' : 'From of several domains'
}

/** The domains of the mailboxes in a From field, or '' for a mailbox that cannot be read. */
function authorDomains(row: EvidenceRow): string[] {
  const value = unfolded(row).slice(unfolded(row).indexOf(':') + 1)
  return Buffer.from(value, 'latin1')
    .toString()
    .replace(/"(?:[^"\\]|\\.)*"/g, 'q')
    .replace(/\([^()]*\)/g, ' ')
    .split(/[,;]/)
    .map((mailbox) => mailbox.trim())
    .filter((mailbox) => mailbox !== '' && !/^[^<>@]*:$/.test(mailbox))
    .map((mailbox) => {
      const address = /<([^<>]*)>/.exec(mailbox)?.[1] ?? mailbox
      const domain = /^[^@]*[^@\s:]\s*@\s*([\p{L}\p{N}\p{M}_.-]+)$/u.exec(address.trim())?.[1] ?? ''
      return domain.toLowerCase().replace(/\.$/, '')
    })
}
