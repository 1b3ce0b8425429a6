// The list in an API request: entries in Postrider's format, or rows with the column titles of any system, which are
// read like a file of the commands.
import { z } from 'zod'
import { OperatorError, refuse } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import { namesIn } from '../base/one-of.ts'
import { MAX_IMPORT } from '../campaigns/api-audiences.ts'
import { field } from '../jsonapi/resource.ts'
import { line } from '../jsonapi/schemas.ts'
import { judge, type Kind } from './import.ts'
import { counted, rowsOf } from './rows.ts'

/** Attributes for a list from another system. `instead` is the attribute for entries in Postrider's format. */
export const listed = <const Programs extends object>(instead: string, programs: Programs) => ({
  rows: field(
    z
      .array(z.custom<Record<string, unknown>>(isObject, 'must be an object').meta({ type: 'object' }))
      .min(1, 'must contain at least one row')
      .max(MAX_IMPORT, `must contain at most ${MAX_IMPORT} rows`),
    {
      create: 'optional',
      read: 'never',
      about: `1 to ${MAX_IMPORT} rows, as an alternative to \`${instead}\`. Each is an object with column titles as names. They are interpreted like a CSV file on the command line.`,
      example: [{ 'Email Address': 'ann@example.net', 'Opted out': 'yes' }],
    },
  ),
  file: field(line(255), {
    create: 'optional',
    read: 'never',
    about: 'Name of the file that the rows are from. Exports of some systems are recognised by it.',
    example: 'unsubscribed_export.csv',
  }),
  from: field(z.enum(namesIn(programs as Record<Extract<keyof Programs, string>, unknown>)), {
    create: 'optional',
    read: 'never',
    about: 'System that exported the rows.',
  }),
  errors: field(z.array(z.object({ index: z.int(), email: z.string().nullable(), detail: z.string() })), {
    about: 'Invalid items, each with its position in the list (from 0) and the reason.',
  }),
})

interface RowFault {
  index: number
  email: string | null
  detail: string
}

/** The items of a request, its invalid rows, and the number of rows to skip. */
export interface GivenRows<Item> {
  items: { line: number; item: Item }[]
  errors: RowFault[]
  skipped: number
}

/** Reads rows like a file. Throws a refusal if their columns cannot be mapped. */
export async function givenIn<Columns extends { headless: boolean }, Item>(
  list: readonly Record<string, unknown>[],
  file: string,
  kind: Kind<Columns, Item>,
): Promise<GivenRows<Item>> {
  const name = 'The list'
  try {
    const { errors, items, rows } = await judge(
      { source: { name, file }, rows: () => counted(name, rowsOf(name, list), 'send it in parts') },
      kind,
      Infinity,
    )
    const faults = errors.map(({ line: at, reason }) => ({ index: at - 1, email: null, detail: reason }))
    return { items, errors: faults, skipped: rows - items.length - faults.length }
  } catch (thrown) {
    if (thrown instanceof OperatorError) throw refuse('invalid', thrown.message, { pointer: '/data/attributes/rows' })
    throw thrown
  }
}

/** Entries in Postrider's format. */
export const understood = <Item>(items: readonly Item[]): GivenRows<Item> => ({
  items: items.map((item, at) => ({ line: at + 1, item })),
  errors: [],
  skipped: 0,
})

/** Throws a refusal for a request with neither kind of entries, or with both. */
export function checkOneOf(name: string, given: object): void {
  if (name in given === 'rows' in given)
    throw refuse('required', `The request needs exactly one of "${name}" and "rows". Add one, or remove the other.`, {
      pointer: '/data/attributes',
    })
}
