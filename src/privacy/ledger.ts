// The ledger of erasures: one line each in a file of its own beside the database, so that a backup from before an erasure, put back, is
// scrubbed again (D56). It holds hashes alone.
import { appendFileSync, closeSync, fstatSync, fsyncSync, openSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'

export const LEDGER = 'erasures.ledger'

export interface Entry {
  /** The request's id. */
  id: string
  user: string
  recipient_hash: string
  at: string
}

/** Appends an entry; when it returns the line is on the disk. */
export function enter(dataDir: string, entry: Entry): void {
  const file = openSync(join(dataDir, LEDGER), 'a+', 0o600)
  try {
    // A line that a crash cut must not take this one with it.
    appendFileSync(file, `${endsOpen(file) ? '\n' : ''}${JSON.stringify(entry)}\n`)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  const directory = openSync(dataDir, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
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
