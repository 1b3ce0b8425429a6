// The version that gave a database its schema: in the application id of SQLite's header, which needs no table and is
// part of every copy. A database from before 0.3.0 has no such id. Its version follows from the schema.
import type Database from 'better-sqlite3'

/** The first byte of the number: "P". The others are the parts of the version. */
const MARK = 0x50

/** The schemas with which versions before 0.3.0 were released. */
const BEFORE = new Map([
  [5, '0.1.0'],
  [19, '0.2.0'],
])

export function writerNumber(version: string): number {
  const parts = version.split('.').map(Number)
  if (parts.length !== 3 || !parts.every((part) => Number.isInteger(part) && part >= 0 && part < 256))
    throw new RangeError(`"${version}" is not a version such as 1.2.3.`)
  return parts.reduce((number, part) => number * 256 + part, MARK)
}

/** The version that gave the database its schema, or undefined if that is not known. */
export function writerOf(database: Database.Database): string | undefined {
  const number = Number(database.pragma('application_id', { simple: true }))
  if (number >>> 24 === MARK) return [number >>> 16, number >>> 8, number].map((part) => part & 0xff).join('.')
  return BEFORE.get(Number(database.pragma('user_version', { simple: true })))
}
