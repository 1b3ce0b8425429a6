// Common parts of the resources that extend the interface specification (D76, D81).
import { z } from 'zod'
import type { SqlCondition } from '../store/list.ts'
import { field, type Filter } from './resource.ts'

export const time = (about: string) => field(z.iso.datetime(), { kind: 'time', about })
export const timeOrNull = (about: string) => field(z.iso.datetime().nullable(), { kind: 'time', about })
export const count = (about: string) => field(z.int(), { about })
export const words = (about: string) => field(z.string(), { about })
export const wordsOrNull = (about: string) => field(z.string().nullable(), { about })

/** The maximum number of characters in a search. */
export const MOST_SEARCHED = 100

/** The columns or SQL texts that contain a word. ASCII letters match in upper and lower case (D205). */
export const containing = (texts: readonly string[], word: string): SqlCondition => ({
  sql: texts.map((text) => `instr(lower(${text}), ?) > 0`).join(' or '),
  parameters: texts.map(() => inLowerCase(word)),
  sliced: true,
})

/** Like `lower()` of SQLite, which changes only ASCII letters. */
export const inLowerCase = (text: string): string => text.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase())

/** A filter for rows by their ids, such as the selected rows of a page of 50. */
export const selected: Filter = {
  column: 'id',
  whole: 2000,
  sql: (value) => ({
    sql: 'id in (select value from json_each(?))',
    parameters: [JSON.stringify(value.split(','))],
    selective: true,
  }),
  about: 'Filter by id. Commas mean "or".',
  extension: true,
}

/** A filter for rows whose text in one of the columns contains the value. */
export const holding = (...columns: [column: string, ...more: string[]]): Filter => ({
  column: columns[0],
  whole: MOST_SEARCHED,
  sql: (value) =>
    containing(
      columns.map((each) => `"${each}"`),
      value,
    ),
  about: `Filter by text in ${columns.join(' or ')}.`,
  extension: true,
})
