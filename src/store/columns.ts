// Types that table columns share.
import type { Generated } from 'kysely'

/** The integer key; SQLite assigns it. */
export type Key = Generated<number>
export type Flag = 0 | 1
/** JSON text of the shape in its comment. */
export type Json = string
