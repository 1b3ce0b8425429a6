// The rows of a list as a request over the API has them: entries that are understood already, or rows with the titles
// of any program, which are read as the commands read a file.
import { z } from 'zod'
import { OperatorError, refuse } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import { namesIn } from '../base/one-of.ts'
import { MAX_IMPORT } from '../campaigns/api-audiences.ts'
import { field } from '../jsonapi/resource.ts'
import { line } from '../jsonapi/schemas.ts'
import { judge, type Kind } from './import.ts'
import { counted, rowsOf } from './rows.ts'

/** Attributes of a list as another program has it. `instead` is the attribute with entries that are understood. */
export const listed = <const Programs extends object>(instead: string, programs: Programs) => ({
  rows: field(
    z
      .array(z.custom<Record<string, unknown>>(isObject, 'must be an object').meta({ type: 'object' }))
      .min(1, 'must hold at least one row')
      .max(MAX_IMPORT, `must hold at most ${MAX_IMPORT} rows`),
    {
      create: 'optional',
      read: 'never',
      about: `In place of ${instead}: 1 to ${MAX_IMPORT} rows by the titles of their columns, which are read as the commands read a file.`,
      example: [{ 'Email Address': 'ann@example.net', 'Opted out': 'yes' }],
    },
  ),
  file: field(line(255), {
    create: 'optional',
    read: 'never',
    about: 'The name of the file that the rows are from: some programs say there what a list is.',
    example: 'unsubscribed_export.csv',
  }),
  from: field(z.enum(namesIn(programs as Record<Extract<keyof Programs, string>, unknown>)), {
    create: 'optional',
    read: 'never',
    about: 'The program that wrote the rows.',
  }),
  errors: field(z.array(z.object({ index: z.int(), email: z.string().nullable(), detail: z.string() })), {
    about: 'What was wrong, by the place in the list from 0.',
  }),
})

interface RowFault {
  index: number
  email: string | null
  detail: string
}

/** The items of a request, the rows that are wrong, and how many rows say nothing. */
export interface GivenRows<Item> {
  items: { line: number; item: Item }[]
  errors: RowFault[]
  skipped: number
}

/** Reads rows as a file. Throws a refusal when their columns are not understood. */
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

/** Items that are understood already. */
export const understood = <Item>(items: readonly Item[]): GivenRows<Item> => ({
  items: items.map((item, at) => ({ line: at + 1, item })),
  errors: [],
  skipped: 0,
})

/** Refuses a request without entries, or with both kinds. */
export function checkOneOf(name: string, given: object): void {
  if (name in given === 'rows' in given)
    throw refuse('required', `Give either ${name} or rows.`, { pointer: '/data/attributes' })
}
