// Whether a backup holds what its manifest says (B14): who can write at a place can give a backup another name, or a
// manifest of its own.
import { join } from 'node:path'
import { HOUR, iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { openKeyring } from '../base/keyring.ts'
import { fingerprintOf, isMark, LEDGER, readContent } from '../privacy/ledger.ts'
import { countsIn, writerOfCopy } from '../store/copy.ts'
import { DATABASE } from '../store/open.ts'
import { readName, type Manifest } from './catalog.ts'

/** A backup has its name and the mark in its ledger within so long. */
const MOST_APART = HOUR

/** Throws an OperatorError when an unpacked backup is not what its manifest says. */
export function demandPromised(folder: string, shown: string, manifest: Manifest): void {
  const [has, says] = differenceOf(folder, manifest) ?? []
  if (has !== undefined && says !== undefined)
    throw new OperatorError(`${shown} ${has}, and its manifest says ${says}; use another backup.`)
}

function differenceOf(folder: string, manifest: Manifest): [has: string, says: string] | undefined {
  const { fingerprint, made_at, name, rows, schema, version } = manifest
  const owner = fingerprintOf(openKeyring(folder))
  if (owner !== fingerprint) return [`is of the installation ${owner}`, fingerprint]
  const found = countsIn(join(folder, DATABASE))
  if (found.schema !== schema) return [`has schema ${found.schema}`, String(schema)]
  for (const table of new Set([...Object.keys(found.rows), ...Object.keys(rows)]))
    if (found.rows[table] !== rows[table])
      return [`has ${found.rows[table] ?? 'no'} rows in ${table}`, String(rows[table] ?? 'nothing of that table')]
  const writer = writerOfCopy(join(folder, DATABASE))
  if (writer !== undefined && isNewer(writer, version)) return [`was written by version ${writer}`, version]
  const made = Date.parse(made_at)
  const named = readName(name)?.at ?? made
  if (Math.abs(named - made) > MOST_APART) return [`is named after ${iso(named)}`, `${made_at}`]
  // Each backup marks the ledger when it begins.
  const marks = readContent(join(folder, LEDGER)).lines.flatMap((line) =>
    isMark(line) && line.ledger === owner ? [Date.parse(line.at)] : [],
  )
  const last = Math.max(...marks)
  return marks.length > 0 && marks.every((at) => Math.abs(at - made) > MOST_APART)
    ? [`was made at ${iso(last)}`, made_at]
    : undefined
}

/** Whether one version is newer than another; false where either is none. */
function isNewer(one: string, other: string): boolean {
  const [ones, others] = [one, other].map((version) => version.split(/[.-]/).slice(0, 3).map(Number))
  for (const [at, part] of (ones ?? []).entries()) {
    const than = others?.[at] ?? 0
    if (part !== than) return part > than
  }
  return false
}
