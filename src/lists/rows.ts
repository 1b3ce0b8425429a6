// Reads all list formats. CSV (RFC 4180) and its common variants, in pieces of limited size: UTF-8, UTF-16 or
// Windows-1252, separated by commas, semicolons, tabs, or the delimiter in a first line such as `sep=;`. JSON, because
// some services only export JSON (Amazon SES, Postmark's API): a document that contains one list, a list, or one object
// per line.
import { pipeline } from 'node:stream'
import { CsvError, parse } from 'csv-parse'
import { codeOf, messageOf, OperatorError } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import type { ListSource } from './csv-source.ts'

interface CsvForm {
  encoding: 'utf-8' | 'utf-16le' | 'utf-16be' | 'windows-1252'
  delimiter: string
  /** Whether the first line is "sep=…" and not a record. */
  announced: boolean
}

export interface ListRow {
  record: string[]
  /** The line on which the record starts, from 1. */
  line: number
}

const HEAD = 64 * 1024
/** The maximum size of a record in bytes. Valid contacts are smaller. */
const MAX_RECORD = 1024 * 1024

const ZIP = 'PK\u0003\u0004'
const MAGIC: readonly [string, string][] = [
  [ZIP, 'a zip archive. Unpack it first.'],
  ['\u001f\u008b', 'compressed. Unpack it first.'],
  ['\u00d0\u00cf\u0011\u00e0', 'an Excel workbook. Save it as CSV.'],
  ['%PDF-', 'a PDF. Export the list as CSV.'],
]

/** Returns the kind of a file that is not text, or undefined if it may be text. */
function kindOf(head: Buffer): string | undefined {
  const start = head.toString('latin1', 0, HEAD)
  const [mark, what] = MAGIC.find(([each]) => start.startsWith(each)) ?? []
  if (mark !== ZIP) return what
  // A workbook is a zip archive that names its parts near its beginning.
  if (/\[Content_Types\]\.xml|(?:^|[^\w])xl\//.test(start)) return 'an Excel workbook. Save it as CSV.'
  return start.includes('opendocument.spreadsheet') ? 'a workbook. Save it as CSV.' : what
}

/** A list that can be read more than once. */
export interface ReadableList {
  /** Its name in messages, and the name of its file. */
  source: Pick<ListSource, 'name' | 'file'>
  /** `read` is called with the number of bytes that were read. */
  rows(read?: (bytes: number) => void): AsyncIterable<ListRow> | Iterable<ListRow>
  /** The encoding of its text if that is not UTF-8. */
  encoding?: string
  /** The document is one page of several. */
  incomplete?: true
}

/** The maximum number of cells in a list that is uploaded or sent: work and memory grow with it (D126). */
const MOST_CELLS = 500_000

/** Yields rows up to the cell limit. Throws an OperatorError with the remedy if there are more. */
export async function* counted(
  name: string,
  rows: AsyncIterable<ListRow> | Iterable<ListRow>,
  remedy: string,
): AsyncIterable<ListRow> {
  let cells = 0
  for await (const row of rows) {
    cells += row.record.length
    if (cells > MOST_CELLS) throw new OperatorError(`${name} has more than 500,000 cells; ${remedy}.`)
    yield row
  }
}

/** The rows of a file: JSON if it starts like JSON, or else CSV. Throws an OperatorError if it is not text. */
export async function listIn(source: ListSource): Promise<ReadableList> {
  if (!(await looksLikeJson(source))) {
    const form = await formOf(source)
    return { source, encoding: form.encoding, rows: (read) => csvRows(source, form, read) }
  }
  const list: ReadableList = {
    source,
    rows: () => jsonRows(source, () => (list.incomplete = true)),
  }
  return list
}

/** Finds the encoding and delimiter of a file. Throws an OperatorError when the file is not text. */
async function formOf(source: ListSource): Promise<CsvForm> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let head: Buffer = Buffer.alloc(0)
  let utf8 = true
  let zeros = false
  try {
    for await (const chunk of source.chunks()) {
      if (head.length < HEAD) head = Buffer.concat([head, chunk.subarray(0, HEAD)])
      zeros ||= chunk.includes(0)
      utf8 &&= decodes(() => decoder.decode(chunk, { stream: true }))
    }
  } catch (thrown) {
    throw new OperatorError(`${source.name} cannot be read (${codeOf(thrown)}).`)
  }
  // A character that is cut off at the end of the file is not valid UTF-8 either.
  utf8 &&= decodes(() => decoder.decode())
  const kind = kindOf(head)
  if (kind !== undefined) throw new OperatorError(`${source.name} is not CSV but ${kind}`)
  const wide = wideOf(head)
  if (zeros && wide === undefined)
    throw new OperatorError(`${source.name} is not text but binary data; export the list as CSV.`)
  const encoding = wide ?? (utf8 ? 'utf-8' : 'windows-1252')
  return { encoding, ...delimiterOf(new TextDecoder(encoding).decode(head)) }
}

function decodes(run: () => void): boolean {
  try {
    run()
    return true
  } catch {
    return false
  }
}

/** Detects UTF-16 by its byte order mark, or by a zero in every second byte, as in western text. */
function wideOf(head: Buffer): 'utf-16le' | 'utf-16be' | undefined {
  if (head[0] === 0xff && head[1] === 0xfe) return 'utf-16le'
  if (head[0] === 0xfe && head[1] === 0xff) return 'utf-16be'
  const zeros = (side: 0 | 1): number => head.filter((byte, at) => byte === 0 && at % 2 === side).length
  const [even, odd] = [zeros(0), zeros(1)]
  const most = head.length / 4
  return odd > most && even === 0 ? 'utf-16le' : even > most && odd === 0 ? 'utf-16be' : undefined
}

/** The delimiter in a first line "sep=…", or else the most frequent one outside quotes. */
function delimiterOf(head: string): { delimiter: string; announced: boolean } {
  const text = head.replace(/^\ufeff?\s+/, '')
  const [, named] = /^"?sep=([^"\r\n])"?[ \t]*(?:\r|\n|$)/i.exec(text) ?? []
  if (named !== undefined) return { delimiter: named, announced: true }
  const [line = ''] = text.replaceAll(/"[^"]*"/g, '').split(/\r\n?|\n/, 1)
  const count = (delimiter: string): number => line.split(delimiter).length
  const [delimiter] = [',', ';', '\t'].toSorted((one, other) => count(other) - count(one))
  return { delimiter: delimiter!, announced: false }
}

/** The records of the file. Throws an OperatorError with the line number when the file is not valid CSV. */
async function* csvRows(source: ListSource, form: CsvForm, read?: (bytes: number) => void): AsyncIterable<ListRow> {
  const decoder = new TextDecoder(form.encoding)
  const parser = parse({
    delimiter: form.delimiter,
    bom: true,
    info: true,
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: MAX_RECORD,
  })
  const decoded = async function* (): AsyncIterable<string> {
    for await (const chunk of source.chunks()) {
      read?.(chunk.length)
      yield decoder.decode(chunk, { stream: true })
    }
    yield decoder.decode()
  }
  pipeline(decoded, parser, () => {})
  let first = form.announced
  let twice = 0
  try {
    for await (const { info, record } of parser as AsyncIterable<{ info: { lines: number }; record: string[] }>) {
      // The library counts the lines up to the end of a record, and a line end of CR and LF inside quotes twice.
      const inside = record.join(',').match(/\r\n|\r|\n/g) ?? []
      twice += inside.filter((end) => end === '\r\n').length
      if (!first) yield { record, line: info.lines - twice - inside.length }
      first = false
    }
  } catch (thrown) {
    throw thrown instanceof CsvError ? unreadable(source, thrown) : thrown
  } finally {
    parser.destroy()
  }
}

const QUOTES = 'the quotes do not match: enclose a cell that contains quotes in quotes, and double each quote in it'
const FAULTS: Record<string, string> = {
  CSV_MAX_RECORD_SIZE: `a row has more than ${MAX_RECORD / 1024 / 1024} MB, perhaps because a quote is never closed`,
  CSV_QUOTE_NOT_CLOSED: 'a quote is never closed',
  CSV_INVALID_CLOSING_QUOTE: QUOTES,
  INVALID_OPENING_QUOTE: QUOTES,
}

function unreadable(source: ListSource, thrown: CsvError): OperatorError {
  const line = typeof thrown['lines'] === 'number' ? thrown['lines'] : undefined
  const fault = FAULTS[thrown.code] ?? messageOf(thrown)
  const place = line === undefined ? '' : `on line ${line} `
  return new OperatorError(
    `${source.name} cannot be read as CSV: ${place}${fault}. Nothing was imported; fix the file and import it again.`,
  )
}

/** The maximum size of a JSON document: it is read into memory. */
const MAX_JSON = 128 * 1024 * 1024
/** The maximum number of different member names. */
const MAX_NAMES = 1000

type Item = Record<string, unknown>

/** Whether the file starts like JSON. */
async function looksLikeJson(source: ListSource): Promise<boolean> {
  for await (const chunk of source.chunks()) return /^(?:\xef\xbb\xbf)?\s*[[{]/.test(chunk.toString('latin1', 0, 1024))
  return false
}

/** `more` is called if the document is one page of several. */
async function* jsonRows(source: ListSource, more: () => void): AsyncIterable<ListRow> {
  const text = await textOf(source)
  const whole = parsed(text)
  const items = itemsOf(source, whole, text)
  if (whole && !Array.isArray(whole) && isPage(whole, items.length)) more()
  yield* rowsOf(source.name, items)
}

/** Returns objects as rows. The first row has the member names. Throws an OperatorError. */
export function* rowsOf(name: string, objects: readonly Item[]): Iterable<ListRow> {
  const items = objects.map(flat)
  const names = [...new Set(items.flatMap((item) => Object.keys(item)))]
  // Each object has a cell for each name.
  if (names.length > MAX_NAMES)
    throw new OperatorError(`${name} has more than ${MAX_NAMES} columns; remove some. Nothing was imported.`)
  if (names.length > 0) yield { record: names, line: 1 }
  for (const [index, item] of items.entries())
    yield { record: names.map((each) => (Object.hasOwn(item, each) ? textIn(item[each]) : '')), line: index + 1 }
}

/** Amazon SES has a NextToken. Brevo (count) and others have the total number of items. */
const isPage = (whole: Item, items: number): boolean =>
  Object.entries(whole).some(
    ([name, value]) => /^next_?token$/i.test(name) && typeof value === 'string' && value !== '',
  ) || Math.max(Number(whole['count']) || 0, Number(whole['TotalCount']) || 0) > items

async function textOf(source: ListSource): Promise<string> {
  if (source.size > MAX_JSON)
    throw new OperatorError(
      `${source.name} is larger than ${MAX_JSON / 1024 / 1024} MB, the limit for JSON; convert it to CSV first.`,
    )
  const chunks: Buffer[] = []
  for await (const chunk of source.chunks()) chunks.push(chunk)
  return Buffer.concat(chunks)
    .toString('utf8')
    .replace(/^\ufeff/, '')
}

function itemsOf(source: ListSource, whole: Item | unknown[] | undefined, text: string): Item[] {
  const list = Array.isArray(whole) ? whole : whole && Object.values(whole).find(Array.isArray)
  const lines = (): unknown[] =>
    text
      .split(/\r?\n/)
      .filter((line) => line.trim() !== '')
      .map(parsed)
  const items = (list ?? lines()) as unknown[]
  if (items.every(isObject)) return items
  throw new OperatorError(`${source.name} is not valid JSON: use a list of objects, or one object per line.`)
}

function parsed(text: string): Item | unknown[] | undefined {
  try {
    return JSON.parse(text) as Item | unknown[]
  } catch {
    return undefined
  }
}

/** Turns nested members into separate columns: "reason.code". */
const flat = (item: Item): Item =>
  Object.fromEntries(
    Object.entries(item).flatMap(([name, value]) =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.entries(value).map(([inner, each]) => [`${name}.${inner}`, each] as const)
        : [[name, value] as const],
    ),
  )

const textIn = (value: unknown): string =>
  value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value)
