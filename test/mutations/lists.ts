// Parsers of lists that other programs export: contacts and suppressions, as CSV and as JSON.
import { OperatorError } from '../../src/base/errors.ts'
import { checkFile } from '../../src/lists/contacts-import.ts'
import type { Source } from '../../src/lists/csv-source.ts'
import { formOf, rowsOf } from '../../src/lists/csv.ts'
import { jsonRows, looksLikeJson } from '../../src/lists/json-rows.ts'
import { entryOf, SOURCES, suppressionColumns, type SuppressionColumns } from '../../src/lists/suppression-columns.ts'
import { readTable } from '../../src/webui/table.ts'
import { both, of, type Parser } from './parser.ts'

const refused = (thrown: unknown): boolean => thrown instanceof OperatorError

/** The octets as a file, in pieces. */
const sourceOf = (bytes: Buffer): Source => ({
  name: 'list.csv',
  file: 'list.csv',
  size: bytes.length,
  async *chunks() {
    for (let at = 0; at < bytes.length; at += 5000) yield bytes.subarray(at, at + 5000)
  },
  checkUnchanged: () => {},
  close: () => {},
})

const TABLES = of(
  'email,name\r\nann@there.test,"Ann ""x"""\r\n',
  'email;status;attributes\nann@there.test;unsubscribed;"{""a"":1}"\n',
  'sep=;\n"',
  '"',
  ',',
  '"\r\n',
  '\r\n',
  '\xff\xfea\0,\0',
  'a\0',
)

async function readSuppressions(bytes: Buffer): Promise<void> {
  const source = sourceOf(bytes)
  const rows = (await looksLikeJson(source)) ? jsonRows(source, () => {}) : rowsOf(source, await formOf(source))
  const from = SOURCES[bytes.length % (SOURCES.length + 1)]
  let columns: SuppressionColumns | undefined
  for await (const { record } of rows)
    if (columns) entryOf(record, columns, 0)
    else columns = suppressionColumns(source, record, { from })
}

export const LISTS: Record<string, Parser> = {
  'lists of contacts': {
    files: [
      'lists/csv.ts',
      'lists/import-columns.ts',
      'lists/column-names.ts',
      'campaigns/standing.ts',
      'message/address.ts',
    ],
    seeds: TABLES,
    parse: (bytes) => checkFile(sourceOf(bytes), { map: new Map() }),
    declared: refused,
  },
  'lists of suppressions': {
    files: ['lists/csv.ts', 'lists/json-rows.ts', 'lists/suppression-columns.ts'],
    seeds: both(
      TABLES,
      of(
        'email,reason,created_at\nann@there.test,hard_bounce,2026-01-01 00:00:00\n',
        '{"EmailAddress":"ann@there.test","Reason":"BOUNCE","LastUpdateTime":"2026-01-01"}\n',
        '[{"a":1},',
        '{"a":{"b":',
        '[',
      ),
      (octets) => [
        Buffer.from(
          JSON.stringify({ list: Array.from({ length: Math.ceil(octets / 20) }, (_, n) => ({ [`a${n}`]: n })) }),
        ),
      ],
    ),
    parse: readSuppressions,
    declared: refused,
  },
  'tables in the console': { files: ['webui/table.ts'], seeds: TABLES, parse: (bytes) => readTable(bytes) },
}
