// The erasure log: one line per erasure, in a file next to the database. After an older backup is restored, its
// erasures are repeated (D56). It contains only hashes of addresses. Marks between the entries identify the
// installation and the position (D67). The server writes a mark if the log has no mark of its installation, and each
// backup writes a mark. The entries after a mark belong to its installation.
import { appendFileSync, closeSync, fstatSync, fsyncSync, readSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { syncPath } from '../base/durable.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { whyUnread } from '../base/file-faults.ts'
import type { Keyring } from '../base/keyring.ts'
import { isObject, jsonOf } from '../base/json.ts'
import { openToAppend, readNamed } from '../base/plain-file.ts'

export const LEDGER = 'erasures.ledger'
/** More bytes than the log of a million erasures has. */
const MOST = 256 * 1024 * 1024
/** A file with more lines without an entry than this is another file. */
const MOST_STRANGE = 10_000

export interface LedgerEntry {
  id: string
  user: string
  recipient_hash: string
  /** ISO 8601, UTC. */
  at: string
}

export interface Mark {
  /** The installation of the log: `fingerprintOf` the instance key. */
  ledger: string
  /** ISO 8601, UTC. */
  at: string
  /** A backup was restored at this time. The erasures since the backup are unknown. */
  gap?: true
}

export type Line = LedgerEntry | Mark

export interface LedgerContent {
  lines: Line[]
  /** The first line that is neither an entry, nor a mark, nor the beginning of a line that a crash cut off. */
  foreign: number | undefined
}

export const isMark = (line: Line): line is Mark => 'ledger' in line

/**
 * Identifies the installation of an erasure log: 32 hexadecimal digits that are derived from the instance key and do
 * not reveal it.
 */
export const fingerprintOf = (keyring: Keyring): string => keyring.mac('ledger', LEDGER, 16).toString('hex')

/**
 * Creates the log of a data directory, or writes the first mark into a log without marks (of an older version). `at` is
 * ISO 8601. Throws an OperatorError for the log of another installation.
 */
export function keepLedger(dataDir: string, owner: string, at: string): void {
  const path = join(dataDir, LEDGER)
  const marks = readContent(path).lines.filter(isMark)
  if (marks.some(({ ledger }) => ledger === owner)) return
  if (marks.length > 0)
    throw new OperatorError(
      `${path} does not belong to the database and key next to it; restore all three from the same backup ("postrider restore FILE"), or start over with "postrider init --new".`,
    )
  append(path, [{ ledger: owner, at }])
}

/**
 * Adds to the copy of a ledger every line that it lacks, also entries from the time before there was a copy. '' = there
 * is not a copy. Throws the system's error.
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

/** Appends an entry to the log and to its copy, if `copy` is set. The lines are synced to disk before it returns. */
export function enter(dataDir: string, entry: LedgerEntry, copy = ''): void {
  for (const file of [join(dataDir, LEDGER), ...(copy === '' ? [] : [copy])]) append(file, [entry])
}

/** Appends a mark to the log of a data directory. It is synced to disk before it returns. */
export const markLedger = (dataDir: string, mark: Mark): void => append(join(dataDir, LEDGER), [mark])

function append(path: string, lines: readonly Line[]): void {
  const file = openToAppend(path)
  try {
    // A line that a crash cut off must not be joined with this line.
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

/** Returns all entries. Skips a line that a crash cut off. */
export function readLedger(dataDir: string): LedgerEntry[] {
  return readContent(join(dataDir, LEDGER)).lines.filter((line): line is LedgerEntry => !isMark(line))
}

/** The content of a log, empty if the file does not exist. Throws an OperatorError if it cannot be read. */
export function readContent(path: string): LedgerContent {
  let text: string
  try {
    // The copy of the log can be on another file system.
    text = readNamed(path, MOST).toString()
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return { lines: [], foreign: undefined }
    throw new OperatorError(
      `The erasure log ${path} cannot be read (${whyUnread(thrown)}); check that it is an erasures.ledger file and its permissions.`,
    )
  }
  const content: LedgerContent = { lines: [], foreign: undefined }
  let number = 0
  let strange = 0
  // Split in pieces: a file of only line feeds would become many strings.
  for (const each of linesIn(text)) {
    number++
    if (each === '') continue
    const line = lineOf(each)
    if (line) content.lines.push(line)
    else if (!isCut(each) || strange === MOST_STRANGE) content.foreign ??= number
    // It is another file, and to go on would take minutes.
    if (!line && strange++ === MOST_STRANGE) break
  }
  return content
}

function* linesIn(text: string): Iterable<string> {
  for (let at = 0, end = 0; end >= 0; at = end + 1) {
    end = text.indexOf('\n', at)
    yield text.slice(at, end < 0 ? undefined : end)
  }
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

/** Whether a text is the start of a line that a crash truncated. */
const isCut = (text: string): boolean =>
  !text.endsWith('}') && ['{"id":"', '{"ledger":"'].some((start) => text.startsWith(start) || start.startsWith(text))
