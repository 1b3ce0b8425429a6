// What columns are made of.
import type { Generated } from 'kysely'

/** The integer key; the store gives it. */
export type Key = Generated<number>
export type Flag = 0 | 1
/** JSON text of the shape in its comment. */
export type Json = string
