// Reads a list of JSON objects as rows; the first row has the member names. Some programs export only JSON (Amazon SES,
// Postmark's API). Accepted are a document that contains one list, a list, or one object per line.
import { OperatorError } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import type { Source } from './csv-source.ts'
import type { Row } from './csv.ts'

/** The largest document; it is read as a whole. */
const MAX = 128 * 1024 * 1024

type Item = Record<string, unknown>

/** Whether the file begins like JSON. */
export async function looksLikeJson(source: Source): Promise<boolean> {
  for await (const chunk of source.chunks()) return /^(?:\xef\xbb\xbf)?\s*[[{]/.test(chunk.toString('latin1', 0, 1024))
  return false
}

/** `more` is called when the document says that it is one page of several. */
export async function* jsonRows(source: Source, more: () => void): AsyncIterable<Row> {
  const text = await textOf(source)
  const whole = parsed(text)
  const items = itemsOf(source, whole, text).map(flat)
  if (whole && !Array.isArray(whole) && isPage(whole, items.length)) more()
  const names = [...new Set(items.flatMap((item) => Object.keys(item)))]
  if (names.length > 0) yield { record: names, line: 1 }
  for (const [index, item] of items.entries())
    yield { record: names.map((name) => textIn(item[name])), line: index + 1 }
}

/** Amazon SES has a NextToken; Brevo (count) and others have the number of all items. */
const isPage = (whole: Item, items: number): boolean =>
  Object.entries(whole).some(
    ([name, value]) => /^next_?token$/i.test(name) && typeof value === 'string' && value !== '',
  ) || Math.max(Number(whole['count']) || 0, Number(whole['TotalCount']) || 0) > items

async function textOf(source: Source): Promise<string> {
  if (source.size > MAX)
    throw new OperatorError(`${source.name} is over ${MAX / 1024 / 1024} MB of JSON; convert it to CSV first.`)
  const chunks: Buffer[] = []
  for await (const chunk of source.chunks()) chunks.push(chunk)
  return Buffer.concat(chunks)
    .toString('utf8')
    .replace(/^\ufeff/, '')
}

function itemsOf(source: Source, whole: Item | unknown[] | undefined, text: string): Item[] {
  const list = Array.isArray(whole) ? whole : whole && Object.values(whole).find(Array.isArray)
  const lines = (): unknown[] =>
    text
      .split(/\r?\n/)
      .filter((line) => line.trim() !== '')
      .map(parsed)
  const items = (list ?? lines()) as unknown[]
  if (items.every(isObject)) return items
  throw new OperatorError(
    `${source.name} is no JSON that can be read: it must be a list of objects, or an object on each line.`,
  )
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
  value === null || value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value)
