// The ledger of erasures: one line each in a file of its own beside the database, so that a backup from before an
// erasure, put back, is scrubbed again (D56). It holds hashes alone. Marks between the entries say whose ledger it is
// and how far it goes (D67): the server writes one where there is none of its installation, each backup writes one, and
// what follows a mark belongs to its installation.
import { appendFileSync, closeSync, fstatSync, fsyncSync, openSync, readFileSync, readSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { syncPath } from '../base/durable.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import { isObject, jsonOf } from '../base/json.ts'

export const LEDGER = 'erasures.ledger'

export interface Entry {
  /** The request's id. */
  id: string
  user: string
  recipient_hash: string
  /** ISO 8601, UTC. */
  at: string
}

export interface Mark {
  /** Whose it is: `fingerprintOf` its key. */
  ledger: string
  /** ISO 8601, UTC. */
  at: string
  /** Nobody knows who was forgotten between the backup that was restored then and this moment. */
  gap?: true
}

export type Line = Entry | Mark

export interface Content {
  lines: Line[]
  /** Numbers of the lines that are neither, nor the beginning of one that a crash cut. */
  foreign: number[]
}

export const isMark = (line: Line): line is Mark => 'ledger' in line

/**
 * Which installation a ledger is of: 32 hexadecimal digits that only its key makes and that tell nothing of the key.
 */
export const fingerprintOf = (keyring: Keyring): string => keyring.mac('ledger', LEDGER, 16).toString('hex')

/**
 * Makes the ledger of a data directory, or marks one of before there were marks. `at` is ISO 8601. Throws an
 * OperatorError for the ledger of another installation.
 */
export function keepLedger(dataDir: string, owner: string, at: string): void {
  const path = join(dataDir, LEDGER)
  const marks = readContent(path).lines.filter(isMark)
  if (marks.some(({ ledger }) => ledger === owner)) return
  if (marks.length > 0)
    throw new OperatorError(
      `${path} belongs to another installation than the database and the key beside it; put the files of one installation together, from the same backup ("postrider restore FILE"), or begin anew with "postrider init --new".`,
    )
  append(path, [{ ledger: owner, at }])
}

/**
 * Brings the copy of a ledger up to the ledger: entries of before there was a copy too. '' = none. Throws as the system
 * does.
 */
export function keepCopy(dataDir: string, copy: string, owner: string, at: string): void {
  if (copy === '') return
  const there = readContent(copy).lines
  const known = new Set(there.map((line) => JSON.stringify(line)))
  const missing = readContent(join(dataDir, LEDGER)).lines.filter((line) => !known.has(JSON.stringify(line)))
  const marked = there.findLast(isMark)?.ledger === owner || (missing[0] !== undefined && isMark(missing[0]))
  if (marked && missing.length === 0) return
  append(copy, [...(marked ? [] : [{ ledger: owner, at }]), ...missing])
}

/** Appends an entry to the ledger and to its copy ('' = none). When it returns the lines are on the disk. */
export function enter(dataDir: string, entry: Entry, copy = ''): void {
  for (const file of [join(dataDir, LEDGER), ...(copy === '' ? [] : [copy])]) append(file, [entry])
}

/** Appends a mark to the ledger of a data directory; when it returns it is on the disk. */
export const markLedger = (dataDir: string, mark: Mark): void => append(join(dataDir, LEDGER), [mark])

function append(path: string, lines: readonly Line[]): void {
  const file = openSync(path, 'a+', 0o600)
  try {
    // A line that a crash cut must not take this one with it.
    appendFileSync(file, `${endsOpen(file) ? '\n' : ''}${textOf(lines)}`)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  syncPath(dirname(path))
}

export const textOf = (lines: readonly Line[]): string => lines.map((line) => `${JSON.stringify(line)}\n`).join('')

function endsOpen(file: number): boolean {
  const { size } = fstatSync(file)
  const last = Buffer.alloc(1)
  return size > 0 && readSync(file, last, 0, 1, size - 1) === 1 && last.toString() !== '\n'
}

/** Every entry; a line that a crash cut off is skipped. */
export function readLedger(dataDir: string): Entry[] {
  return readContent(join(dataDir, LEDGER)).lines.filter((line): line is Entry => !isMark(line))
}

/** What a ledger says; nothing where there is none. Throws an OperatorError for one that cannot be read. */
export function readContent(path: string): Content {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return { lines: [], foreign: [] }
    throw new OperatorError(`The ledger ${path} cannot be read (${codeOf(thrown)}).`)
  }
  const content: Content = { lines: [], foreign: [] }
  for (const [index, each] of text.split('\n').entries()) {
    const line = lineOf(each)
    if (line) content.lines.push(line)
    else if (each !== '' && !isCut(each)) content.foreign.push(index + 1)
  }
  return content
}

function lineOf(text: string): Line | undefined {
  const value = jsonOf(text)
  return isLine(value) ? value : undefined
}

function isLine(value: unknown): value is Line {
  if (!isObject(value)) return false
  const holds = (...names: string[]): boolean => names.every((name) => typeof value[name] === 'string')
  return holds('id', 'user', 'recipient_hash', 'at') || holds('ledger', 'at')
}

/** The beginning of a line, as an append leaves it that a crash cut. */
const isCut = (text: string): boolean =>
  !text.endsWith('}') && ['{"id":"', '{"ledger":"'].some((start) => text.startsWith(start) || start.startsWith(text))
