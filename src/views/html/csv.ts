// CSV for spreadsheets: a download, written page by page from a list of the API.
import { csvLine } from '../../base/csv.ts'
import { guard } from './frame.ts'
import type { Resource } from '../../jsonapi/resource.ts'
import type { Thing, Visit } from './visit.ts'

const MAX_ROWS = 1_000_000

/** Characters after which other work runs. */
const TURN = 512 * 1024

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

/** The filter of a download for selected rows, by the `ids` of its URL (`Bulk.file`). */
export const chosenIn = (visit: Visit): string =>
  visit.query('ids') === '' ? '' : `&filter%5Bid%5D=${encodeURIComponent(visit.query('ids'))}`

interface Download<R extends Resource> {
  of: R
  /** The list of the API, with a "?". */
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
      let characters = 0
      for (const each of page.many) {
        const lines = linesOf(row(each, included))
        controller.enqueue(encoder.encode(lines))
        // Rows may be long, so other work runs between them.
        if ((characters += lines.length) < TURN) continue
        characters = 0
        await new Promise((resolve) => void setImmediate(resolve))
      }
      cursor = page.next
    },
  })
  return download(visit, name, stream)
}
