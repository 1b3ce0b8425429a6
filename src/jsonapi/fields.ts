// Common parts of the resources that the interface specification does not have (D76, D81). The OpenAPI document calls
// each an extension.
import { z } from 'zod'
import { field, type Filter } from './resource.ts'

export const EXTENSION = 'An extension of the interface.'
export const time = (about: string) => field(z.iso.datetime(), { kind: 'time', about })
export const timeOrNull = (about: string) => field(z.iso.datetime().nullable(), { kind: 'time', about })
export const count = (about: string) => field(z.int(), { about })
export const words = (about: string) => field(z.string(), { about })
export const wordsOrNull = (about: string) => field(z.string().nullable(), { about })

/** A filter for rows whose text in one of the columns contains the value; upper and lower case are the same. */
export const holding = (...columns: [column: string, ...more: string[]]): Filter => ({
  column: columns[0],
  sql: (value) => ({
    sql: columns.map((each) => `"${each}" like ? escape '\\'`).join(' or '),
    parameters: columns.map(() => `%${value.replaceAll(/[\\%_]/g, '\\$&')}%`),
  }),
  about: `Only those whose ${columns.join(' or ')} holds this. ${EXTENSION}`,
})
