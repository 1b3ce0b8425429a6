// CSV for spreadsheets: a download, written page by page from a list of the API.
import { guard } from './frame.ts'
import type { Resource } from '../jsonapi/resource.ts'
import type { Thing, Visit } from './visit.ts'

/** The most rows of a download. */
const MAX_ROWS = 1_000_000

/** A cell that a spreadsheet would run as a formula gets a leading apostrophe (D81). */
const safe = (cell: string): string => (/^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell)
const quoted = (cell: string): string => (/[",\r\n]|^\s|\s$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)

/** One record with its line end (RFC 4180), for a spreadsheet: formulas are made harmless. */
export const csvLine = (cells: readonly string[]): string => `${cells.map(safe).map(quoted).join(',')}\r\n`

/** A download of a few rows. */
export function csvFile(visit: Visit, name: string, rows: readonly (readonly string[])[]): Response {
  return download(visit, name, new Blob(rows.map(csvLine)).stream())
}

function download(visit: Visit, name: string, stream: ReadableStream): Response {
  guard(visit.context)
  visit.context.header('Content-Type', 'text/csv; charset=utf-8')
  visit.context.header('Content-Disposition', `attachment; filename="${name}"`)
  return visit.context.body(stream)
}
const isLine = (cells: string[] | string[][]): cells is string[] => typeof cells[0] === 'string'
const linesOf = (cells: string[] | string[][]): string => (isLine(cells) ? csvLine(cells) : cells.map(csvLine).join(''))

interface Download<R extends Resource> {
  of: R
  /** The list of the API; it has a "?". */
  path: string
  titles: readonly string[]
  /** The cells of a line, or of several. */
  row: (thing: Thing<R>, included: ReadonlyMap<string, Thing>) => string[] | string[][]
}

/** A download of every row of a list of the API. The list is read no faster than the client reads the download. */
export function csv<R extends Resource>(
  visit: Visit,
  name: string,
  { of: resource, path, row, titles }: Download<R>,
): Response {
  const encoder = new TextEncoder()
  let cursor: string | null = ''
  let rows = 0
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(encoder.encode(csvLine(titles)))
    },
    async pull(controller) {
      if (cursor === null || rows >= MAX_ROWS) return controller.close()
      const joint = cursor === '' ? '' : `&page%5Bcursor%5D=${encodeURIComponent(cursor)}`
      const page = await visit.get(resource, `${path}&page%5Bsize%5D=100${joint}`)
      rows += page.many.length
      const included = new Map(page.included.map((each) => [each.id, each]))
      controller.enqueue(encoder.encode(page.many.map((each) => linesOf(row(each, included))).join('')))
      cursor = page.next
    },
  })
  return download(visit, name, stream)
}
