// Reads CSV (RFC 4180) in the forms that programs write, in pieces of limited size: UTF-8, UTF-16 or Windows-1252;
// commas, semicolons, tabs, or the delimiter of a first line "sep=;". Writes correct CSV.
import { pipeline } from 'node:stream'
import { CsvError, parse } from 'csv-parse'
import { codeOf, messageOf, OperatorError } from '../base/errors.ts'
import type { Source } from './csv-source.ts'

export interface CsvForm {
  encoding: 'utf-8' | 'utf-16le' | 'utf-16be' | 'windows-1252'
  delimiter: string
  /** Whether the first line is "sep=…" and not a record. */
  announced: boolean
}

export interface Row {
  record: string[]
  /** The number of the record's last line. */
  line: number
}

const HEAD = 64 * 1024
/** The most octets of a record; every valid contact is smaller. */
const MAX_RECORD = 1024 * 1024

const MAGIC: readonly [string, string][] = [
  ['PK\u0003\u0004', 'a zip archive or a workbook; unpack it, or save its sheet as CSV'],
  ['\u001f\u008b', 'compressed; unpack it first'],
  ['\u00d0\u00cf\u0011\u00e0', 'a workbook; save its sheet as CSV'],
  ['%PDF-', 'a PDF; export the list as CSV'],
]

/** Finds the encoding and delimiter of a file. Throws an OperatorError when the file is not text. */
export async function formOf(source: Source): Promise<CsvForm> {
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
  const start = head.toString('latin1', 0, 8)
  const magic = MAGIC.find(([mark]) => start.startsWith(mark))
  if (magic) throw new OperatorError(`${source.name} is no CSV but ${magic[1]}.`)
  const wide = wideOf(head)
  if (zeros && wide === undefined)
    throw new OperatorError(`${source.name} is no text but binary data; export the list as CSV.`)
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

/** UTF-16, found by its byte order mark, or by a zero in every second octet, as in western text. */
function wideOf(head: Buffer): 'utf-16le' | 'utf-16be' | undefined {
  if (head[0] === 0xff && head[1] === 0xfe) return 'utf-16le'
  if (head[0] === 0xfe && head[1] === 0xff) return 'utf-16be'
  const zeros = (side: 0 | 1): number => head.filter((octet, at) => octet === 0 && at % 2 === side).length
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
export async function* rowsOf(source: Source, form: CsvForm, read?: (bytes: number) => void): AsyncIterable<Row> {
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
  try {
    for await (const { info, record } of parser as AsyncIterable<{ info: { lines: number }; record: string[] }>) {
      if (!first) yield { record, line: info.lines }
      first = false
    }
  } catch (thrown) {
    throw thrown instanceof CsvError ? unreadable(source, thrown) : thrown
  } finally {
    parser.destroy()
  }
}

const FAULTS: Record<string, string> = {
  CSV_MAX_RECORD_SIZE: `a row of more than ${MAX_RECORD / 1024 / 1024} MB, perhaps because a quote is never closed`,
  CSV_QUOTE_NOT_CLOSED: 'a quote that is never closed',
  CSV_INVALID_CLOSING_QUOTE: 'a quote that is closed in the middle of a cell',
  INVALID_OPENING_QUOTE: 'a quote in the middle of a cell',
}

function unreadable(source: Source, thrown: CsvError): OperatorError {
  const line = typeof thrown['lines'] === 'number' ? thrown['lines'] : undefined
  const fault = FAULTS[thrown.code] ?? messageOf(thrown)
  const place = line === undefined ? 'There is' : `On line ${line} there is`
  return new OperatorError(
    `${source.name} is no CSV that can be read. ${place} ${fault}; mend it and import again, for nothing was imported.`,
  )
}

/** One record with its line end (RFC 4180); cells are quoted when necessary. */
export const csvLine = (cells: readonly (string | null)[]): string =>
  `${cells.map((cell) => quoted(cell ?? '')).join(',')}\r\n`

const quoted = (cell: string): string => (/[",;\t\r\n]|^\s|\s$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)
