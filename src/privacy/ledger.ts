// The ledger of erasures: one line for each, in a file beside the database. A restored backup from before an erasure is
// erased again by it (D56). It holds only hashes.
import { appendFileSync, closeSync, fstatSync, fsyncSync, openSync, readFileSync, readSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { syncPath } from '../base/durable.ts'

export const LEDGER = 'erasures.ledger'

export interface Entry {
  /** The request's id. */
  id: string
  user: string
  recipient_hash: string
  at: string
}

/** Creates the ledger when it is missing: a data directory without one was never served by this version. */
export function keepLedger(dataDir: string): void {
  closeSync(openSync(join(dataDir, LEDGER), 'a', 0o600))
}

/** Appends an entry to the ledger and to its copy ('' = none). When it returns the lines are on the disk. */
export function enter(dataDir: string, entry: Entry, copy = ''): void {
  for (const file of [join(dataDir, LEDGER), ...(copy === '' ? [] : [copy])]) append(file, entry)
}

function append(path: string, entry: Entry): void {
  const file = openSync(path, 'a+', 0o600)
  try {
    // A line that a crash cut off must not spoil this one.
    appendFileSync(file, `${endsOpen(file) ? '\n' : ''}${JSON.stringify(entry)}\n`)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  syncPath(dirname(path))
}

function endsOpen(file: number): boolean {
  const { size } = fstatSync(file)
  const last = Buffer.alloc(1)
  return size > 0 && readSync(file, last, 0, 1, size - 1) === 1 && last.toString() !== '\n'
}

/** Every entry; a line that a crash cut off is skipped. */
export function readLedger(dataDir: string): Entry[] {
  let text: string
  try {
    text = readFileSync(join(dataDir, LEDGER), 'utf8')
  } catch {
    return []
  }
  return text.split('\n').flatMap((line) => {
    try {
      return line === '' ? [] : [JSON.parse(line) as Entry]
    } catch {
      return []
    }
  })
}
