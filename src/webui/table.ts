// An uploaded CSV file. It is read in a worker thread (apart.ts): its work and memory grow with what is in it.
import { CsvError, parse } from 'csv-parse/sync'

export interface Sheet {
  titles: string[]
  rows: string[][]
  /** The line of the file on which each row begins; the first is 1. */
  lines: number[]
  /** The file as text. */
  source: string
}

/** The most cells of an uploaded file, counted before the library reads it: its work and memory grow with them. */
const MOST_CELLS = 500_000

/** The rows of a CSV file in UTF-8, UTF-16 or Windows-1252; otherwise a sentence about the error. */
export function readTable(bytes: Uint8Array): Sheet | string {
  const wide =
    bytes[0] === 0xff && bytes[1] === 0xfe
      ? 'utf-16le'
      : bytes[0] === 0xfe && bytes[1] === 0xff
        ? 'utf-16be'
        : undefined
  const textOf = (): string => {
    if (wide !== undefined) return new TextDecoder(wide).decode(bytes)
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    } catch {
      return new TextDecoder('windows-1252').decode(bytes)
    }
  }
  // The library counts a line end of CR and LF inside quotes twice.
  const text = textOf().replaceAll('\r\n', '\n')
  if (text.includes('\0')) return 'The file is no text; export the list as CSV.'
  let cells = 0
  for (const _ of text.matchAll(/[,;\t\r\n]/g))
    if (++cells > MOST_CELLS)
      return 'The file has more than 500,000 cells; the import of "postrider contacts" or "postrider suppression" takes larger ones.'
  const [line = ''] = text.split(/\r?\n/, 1)
  const delimiter = [',', ';', '\t'].toSorted((one, other) => line.split(other).length - line.split(one).length)[0]!
  try {
    const records = parse(text, {
      info: true,
      bom: true,
      delimiter,
      relax_column_count: true,
      skip_empty_lines: true,
      max_record_size: 1024 * 1024,
    })
    const [titles, ...rest] = records as unknown as { record: string[]; info: { lines: number } }[]
    if (!titles) return 'The file is empty.'
    // The library counts the lines up to the end of a record.
    const lines = rest.map(({ info, record }) => info.lines - record.join('').split('\n').length + 1)
    return {
      titles: titles.record.map((title) => title.trim()),
      rows: rest.map(({ record }) => record),
      lines,
      source: text,
    }
  } catch (thrown) {
    const line =
      thrown instanceof CsvError && typeof thrown['lines'] === 'number' ? `Line ${thrown['lines']}` : 'A line'
    return `${line} of the file cannot be read as CSV: its quotes do not match. A cell with quotes stands in quotes, and each quote in it is written twice.`
  }
}
