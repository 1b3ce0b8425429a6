// The ledger of erasures: one line each in a file of its own beside the database, so that a backup from before an erasure, put back, is
// scrubbed again (D56). It holds hashes alone.
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

/** Makes the ledger where there is none: a data directory without one has not been served by this version. */
export function keepLedger(dataDir: string): void {
  closeSync(openSync(join(dataDir, LEDGER), 'a', 0o600))
}

/** Appends an entry to the ledger of a data directory and to its copy ('' = none); when it returns the lines are on the disk. */
export function enter(dataDir: string, entry: Entry, copy = ''): void {
  for (const file of [join(dataDir, LEDGER), ...(copy === '' ? [] : [copy])]) append(file, entry)
}

function append(path: string, entry: Entry): void {
  const file = openSync(path, 'a+', 0o600)
  try {
    // A line that a crash cut must not take this one with it.
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

/** Every entry; a line that a crash cut is passed over. */
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
