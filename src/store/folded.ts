// Comparison of texts without case, in JavaScript and in SQL. `lower()` of SQLite changes only ASCII letters.
import type Database from 'better-sqlite3'

/** A text for comparison: lower case, in the normalisation form C of Unicode. */
export const folded = (text: string): string => text.toLowerCase().normalize('NFC')

/** Defines `folded()` in SQL. */
export function defineFolded(database: Database.Database): void {
  const options = { deterministic: true, directOnly: true }
  database.function('folded', options, (text: unknown) => (typeof text === 'string' ? folded(text) : null))
}

/** SQL for a column's text as `folded` returns it. Most texts are ASCII, for which the built-in function is faster. */
export const foldedIn = (column: string): string =>
  `iif(octet_length(${column}) = length(${column}), lower(${column}), folded(${column}))`
