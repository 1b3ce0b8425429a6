// Parsers of lists that other programs export: contacts and suppressions, as CSV and as JSON.
import { OperatorError } from '../../src/base/errors.ts'
import { contactsIn } from '../../src/lists/contact-columns.ts'
import { heldSource } from '../../src/lists/csv-source.ts'
import { judge } from '../../src/lists/import.ts'
import { SUPPRESSORS } from '../../src/lists/programs.ts'
import { listIn } from '../../src/lists/rows.ts'
import { suppressionsIn } from '../../src/lists/suppression-columns.ts'
import { readUpload } from '../../src/lists/upload.ts'
import { namesIn } from '../../src/base/one-of.ts'
import { both, of, type Parser } from './parser.ts'

const refused = (thrown: unknown): boolean => thrown instanceof OperatorError

const sourceOf = (bytes: Buffer) => heldSource('list.csv', 'list.csv', bytes)

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

const SOURCES = namesIn(SUPPRESSORS)

const readSuppressions = async (bytes: Buffer) =>
  judge(
    await listIn(sourceOf(bytes)),
    suppressionsIn({ from: SOURCES[bytes.length % (SOURCES.length + 1)] }, 0),
    Infinity,
  )

export const LISTS: Record<string, Parser> = {
  'lists of contacts': {
    files: ['lists/rows.ts', 'lists/contact-columns.ts', 'lists/words.ts', 'message/address.ts'],
    seeds: TABLES,
    parse: async (bytes) => judge(await listIn(sourceOf(bytes)), contactsIn({ map: new Map() })),
    declared: refused,
  },
  'lists of suppressions': {
    files: ['lists/rows.ts', 'lists/programs.ts', 'lists/suppression-columns.ts'],
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
  'lists in the console': {
    files: ['lists/upload.ts', 'lists/columns.ts'],
    seeds: TABLES,
    // As the steps of an import do: the columns are looked at, and the list is read as they are chosen.
    parse: async (bytes) => {
      const look = await readUpload({ bytes, file: '', contacts: { map: new Map(), page: true } })
      const uses = typeof look === 'object' && 'uses' in look.columns ? look.columns.uses : ['email']
      return readUpload({ bytes, file: '', contacts: { map: new Map(), uses, page: true } })
    },
  },
}
